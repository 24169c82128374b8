from typing import Any

from libs.contracts.identity import Identity
from libs.contracts.pages import Page
from libs.persistence import Database, Order, fetch_page

_NEWEST_FIRST = Order(("k.created_at", "k.id"), ("timestamptz", "uuid"))


async def visible_page(
    database: Database,
    table: str,
    columns: str,
    reader: Identity,
    *,
    limit: int,
    offset: int,
    cursor: str | None = None,
) -> Page[dict[str, Any]]:
    """Returns a page of the rows that the reader may see, newest first. ``table`` must define the alias ``k``."""
    visible = f"FROM {table} WHERE company_id = %(company)s"
    if not reader.reads_company:
        visible += " AND user_id = %(user)s"
    parameters = {"company": reader.company_id, "user": reader.user_id}
    async with database.connection() as connection:
        return await fetch_page(
            connection, columns, visible, _NEWEST_FIRST, parameters, limit=limit, offset=offset, cursor=cursor
        )
