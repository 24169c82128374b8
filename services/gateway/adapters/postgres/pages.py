from typing import Any

from libs.contracts.identity import Identity
from libs.persistence import Database


async def visible_page(
    database: Database, table: str, columns: str, reader: Identity, limit: int, offset: int
) -> tuple[list[dict[str, Any]], int]:
    """Returns a page of the rows that the reader may see, newest first, and the number of all of them.

    ``table`` with the alias that ``columns`` use, ``k``.
    """
    visible = f"FROM {table} WHERE company_id = %(company)s AND (%(user)s::uuid IS NULL OR user_id = %(user)s)"
    page = f"SELECT {columns} {visible} ORDER BY created_at DESC, k.id DESC LIMIT %(limit)s OFFSET %(offset)s"
    values = {
        "company": reader.company_id,
        "user": None if reader.reads_company else reader.user_id,
        "limit": limit,
        "offset": offset,
    }
    return await database.records(page, values), await database.value(f"SELECT count(*) {visible}", values)
