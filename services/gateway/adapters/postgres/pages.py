from typing import Any

from libs.contracts.identity import Identity
from libs.persistence import Database


async def visible_page(
    database: Database, table: str, columns: str, reader: Identity, limit: int, offset: int
) -> tuple[list[tuple[Any, ...]], int]:
    """Returns a page of the rows that the reader may see, newest first, and the number of all of them."""
    visible = f"FROM {table} WHERE company_id = %(company)s AND (%(user)s::uuid IS NULL OR user_id = %(user)s)"
    page = f"SELECT {columns} {visible} ORDER BY created_at DESC, id DESC LIMIT %(limit)s OFFSET %(offset)s"
    values = {
        "company": reader.company_id,
        "user": None if reader.reads_company else reader.user_id,
        "limit": limit,
        "offset": offset,
    }
    async with database.connection() as connection:
        rows = await (await connection.execute(page.encode(), values)).fetchall()
        counted = await (await connection.execute(f"SELECT count(*) {visible}".encode(), values)).fetchone()
    return rows, counted[0] if counted else 0
