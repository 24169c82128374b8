"""Companies and users in PostgreSQL."""

from collections.abc import Sequence
from typing import Any

from psycopg.errors import UniqueViolation

from libs.contracts.errors import Conflict
from libs.contracts.identifiers import is_id
from libs.persistence import Database
from services.gateway.domain.accounts import Company, User


class PostgresAccounts:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add_company(self, company: Company) -> None:
        await self._add(
            "INSERT INTO companies (id, name, rate_limit, created_at) VALUES (%s, %s, %s, %s)",
            (company.id, company.name, company.rate_limit, company.created_at),
            f"There is a company '{company.name}' already.",
        )

    async def companies(self) -> Sequence[Company]:
        rows = await self._rows("SELECT id, name, rate_limit, created_at FROM companies ORDER BY created_at", ())
        return [_company(row) for row in rows]

    async def company(self, name_or_id: str) -> Company | None:
        column = "id" if is_id(name_or_id) else "name"
        rows = await self._rows(
            f"SELECT id, name, rate_limit, created_at FROM companies WHERE {column} = %s", (name_or_id,)
        )
        return _company(rows[0]) if rows else None

    async def add_user(self, user: User) -> None:
        await self._add(
            "INSERT INTO users (id, company_id, name, created_at) VALUES (%s, %s, %s, %s)",
            (user.id, user.company_id, user.name, user.created_at),
            f"There is a user '{user.name}' in this company already.",
        )

    async def users(self, company_id: str) -> Sequence[User]:
        rows = await self._rows(
            "SELECT id, company_id, name, created_at FROM users WHERE company_id = %s ORDER BY created_at",
            (company_id,),
        )
        return [_user(row) for row in rows]

    async def user(self, company_id: str, name_or_id: str) -> User | None:
        column = "id" if is_id(name_or_id) else "name"
        rows = await self._rows(
            f"SELECT id, company_id, name, created_at FROM users WHERE company_id = %s AND {column} = %s",
            (company_id, name_or_id),
        )
        return _user(rows[0]) if rows else None

    async def _add(self, statement: str, values: tuple[Any, ...], taken: str) -> None:
        try:
            async with self._database.connection() as connection:
                await connection.execute(statement.encode(), values)
        except UniqueViolation:
            raise Conflict(taken) from None

    async def _rows(self, statement: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        async with self._database.connection() as connection:
            return await (await connection.execute(statement.encode(), values)).fetchall()


def _company(row: tuple[Any, ...]) -> Company:
    return Company(id=str(row[0]), name=row[1], rate_limit=row[2], created_at=row[3])


def _user(row: tuple[Any, ...]) -> User:
    return User(id=str(row[0]), company_id=str(row[1]), name=row[2], created_at=row[3])
