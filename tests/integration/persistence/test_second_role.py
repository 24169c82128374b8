"""The password of a database is changed by a second role that acts as the first (docs/operate/rotation.md)."""

import secrets
from collections.abc import AsyncIterator

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from libs.persistence import Database
from tests.support.infrastructure import Infrastructure


@pytest.fixture
async def roles(infrastructure: Infrastructure, database_url: str) -> AsyncIterator[tuple[str, str]]:
    """URLs of the database as the role that owns it and as the second one."""
    name = f"owner_{secrets.token_hex(4)}"
    first, second = sql.Identifier(name), sql.Identifier(f"{name}_b")
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as administrator:
        database = sql.Identifier(administrator.info.dbname)
        for statement in (
            sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'one'").format(first),
            sql.SQL("ALTER DATABASE {} OWNER TO {}").format(database, first),
            sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(database),
            sql.SQL("ALTER SCHEMA public OWNER TO {}").format(first),
            sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'two' IN ROLE {}").format(second, first),
            sql.SQL("ALTER ROLE {} SET role = {}").format(second, first),
        ):
            await administrator.execute(statement)
        yield (
            make_conninfo(database_url, user=name, password="one"),
            make_conninfo(database_url, user=f"{name}_b", password="two"),
        )
        await administrator.execute(sql.SQL("REASSIGN OWNED BY {} TO CURRENT_USER").format(first))
        for role in (second, first):
            await administrator.execute(sql.SQL("DROP OWNED BY {}").format(role))
            await administrator.execute(sql.SQL("DROP ROLE {}").format(role))


async def test_objects_that_the_second_role_creates_belong_to_the_first(roles: tuple[str, str]) -> None:
    old, new = (Database(url, name="test", timeout=30.0) for url in roles)
    await old.open()
    await new.open()
    async with old.connection() as connection:
        await connection.execute("CREATE TABLE before (number int)")
    async with new.connection() as connection:
        await connection.execute("ALTER TABLE before ADD COLUMN word text")
        await connection.execute("CREATE TABLE after (number int)")
    async with old.connection() as connection:
        await connection.execute("ALTER TABLE after ADD COLUMN word text")
        rows = await (
            await connection.execute("SELECT DISTINCT tableowner FROM pg_tables WHERE schemaname = 'public'")
        ).fetchall()
        (user,) = await (await connection.execute("SELECT current_user")).fetchone() or ("",)
    assert [row[0] for row in rows] == [user]
    await new.close()
    await old.close()
