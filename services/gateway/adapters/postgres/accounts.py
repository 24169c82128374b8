"""Stores companies and users in PostgreSQL."""

from collections.abc import Sequence
from typing import Any, Final

from psycopg.errors import UniqueViolation

from libs.contracts.errors import Conflict
from libs.contracts.identifiers import is_id
from libs.persistence import Database
from services.gateway.domain.accounts import Company, User

_COMPANIES: Final = "SELECT id::text, name, rate_limit, created_at FROM companies"
_USERS: Final = "SELECT id::text, company_id::text, name, created_at FROM users WHERE company_id = %s"


class PostgresAccounts:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add_company(self, company: Company) -> None:
        await self._add(
            "INSERT INTO companies (id, name, rate_limit, created_at) VALUES (%s, %s, %s, %s)",
            (company.id, company.name, company.rate_limit, company.created_at),
            f"A company named '{company.name}' already exists. Choose another name.",
        )

    async def companies(self) -> Sequence[Company]:
        return [Company(**row) for row in await self._database.records(f"{_COMPANIES} ORDER BY created_at")]

    async def company(self, name_or_id: str) -> Company | None:
        rows = await self._database.records(f"{_COMPANIES} WHERE {_column(name_or_id)} = %s", (name_or_id,))
        return Company(**rows[0]) if rows else None

    async def add_user(self, user: User) -> None:
        await self._add(
            "INSERT INTO users (id, company_id, name, created_at) VALUES (%s, %s, %s, %s)",
            (user.id, user.company_id, user.name, user.created_at),
            f"This company already has a user named '{user.name}'. Choose another name.",
        )

    async def users(self, company_id: str) -> Sequence[User]:
        return [User(**row) for row in await self._database.records(f"{_USERS} ORDER BY created_at", (company_id,))]

    async def user(self, company_id: str, name_or_id: str) -> User | None:
        query = f"{_USERS} AND {_column(name_or_id)} = %s"
        rows = await self._database.records(query, (company_id, name_or_id))
        return User(**rows[0]) if rows else None

    async def _add(self, statement: str, values: tuple[Any, ...], taken: str) -> None:
        try:
            await self._database.execute(statement, values)
        except UniqueViolation:
            raise Conflict(taken) from None


def _column(name_or_id: str) -> str:
    return "id" if is_id(name_or_id) else "name"
