"""Companies, users and keys for operators, who work next to the gateway's database rather than over HTTP.

What happens is recorded in the outbox; a running gateway publishes it.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Final

from libs.contracts.errors import Conflict, NotFound, ValidationFailed
from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.eventing import MemoryBus, Outbox, Publisher
from libs.persistence import Database
from services.gateway.adapters.postgres_accounts import PostgresAccounts
from services.gateway.adapters.postgres_keys import PostgresKeys
from services.gateway.domain.accounts import ALL_SCOPES, DEFAULT_RATE_LIMIT, ApiKey, Company, User
from services.gateway.domain.ports import AccountStore
from services.gateway.domain.secrets import digest_of, has_form
from services.gateway.use_cases.manage_keys import IssuedKey, KeyManager, KeyRequest

DEVELOPMENT_COMPANY: Final = "Development"
_PAGE: Final = 200


class Administration:
    """What an operator may do: everything, in any company. Names and ids both name companies and users."""

    def __init__(self, database: Database) -> None:
        # Events only have to reach the outbox: the gateway's sweeper publishes them.
        outbox = Outbox(database, Publisher(database, MemoryBus().producer(), source="/aes/gateway"))
        self._accounts: AccountStore = PostgresAccounts(database)
        self._store = PostgresKeys(database, outbox)
        self._manager = KeyManager(self._store, now=_now, forget=_nothing_cached)

    async def create_company(self, name: str, *, rate_limit: int | None = DEFAULT_RATE_LIMIT) -> Company:
        """``rate_limit`` of its keys in requests a minute, ``None`` for no limit. Raises ``Conflict``."""
        company = Company(id=new_id(), name=_name(name), rate_limit=rate_limit, created_at=_now())
        await self._accounts.add_company(company)
        return company

    async def companies(self) -> Sequence[Company]:
        return await self._accounts.companies()

    async def company(self, company: str) -> Company:
        found = await self._accounts.company(company)
        if found is None:
            raise NotFound(f"There is no company '{company}'.")
        return found

    async def create_user(self, company: str, name: str) -> User:
        """Raises ``Conflict`` for a name that is taken in the company."""
        owner = await self.company(company)
        user = User(id=new_id(), company_id=owner.id, name=_name(name), created_at=_now())
        await self._accounts.add_user(user)
        return user

    async def users(self, company: str) -> Sequence[User]:
        return await self._accounts.users((await self.company(company)).id)

    async def user(self, company: str, user: str) -> User:
        owner = await self.company(company)
        found = await self._accounts.user(owner.id, user)
        if found is None:
            raise NotFound(f"There is no user '{user}' in the company '{owner.name}'.")
        return found

    async def create_key(
        self,
        company: str,
        user: str,
        *,
        scopes: frozenset[str] = ALL_SCOPES,
        expires_at: datetime | None = None,
        name: str = "",
        rate_limit: int | None = None,
    ) -> IssuedKey:
        """``expires_at`` ``None`` for never, ``rate_limit`` ``None`` for the company's. The secret is nowhere else."""
        unknown = sorted(scopes - ALL_SCOPES)
        if unknown:
            raise ValidationFailed(f"There are no such scopes: {', '.join(unknown)}.")
        owner = await self.company(company)
        holder = await self.user(company, user)
        wanted = KeyRequest(
            name=name,
            scopes=scopes,
            expires_at=expires_at,
            rate_limit=owner.rate_limit if rate_limit is None else rate_limit,
        )
        return await self._manager.issue(holder.company_id, holder.id, wanted, correlation_id=new_id(), request=None)

    async def keys(self, company: str) -> Sequence[ApiKey]:
        """All keys of a company, newest first, also those that are no longer valid."""
        owner = await self.company(company)
        keys: list[ApiKey] = []
        while True:
            page, total = await self._store.keys(owner.id, None, limit=_PAGE, offset=len(keys))
            keys.extend(page)
            if not page or len(keys) >= total:
                return keys

    async def rotate_key(self, key_id: str, *, grace_seconds: int, expires_at: datetime | None = None) -> IssuedKey:
        """A successor beside which the old key stays valid for the grace period. Raises ``Conflict``."""
        operator = await self._operator_of(key_id)
        return await self._manager.rotate(
            operator, key_id, expires_at=expires_at, grace_seconds=grace_seconds, correlation_id=new_id(), request=None
        )

    async def revoke_key(self, key_id: str) -> None:
        await self._manager.revoke(await self._operator_of(key_id), key_id, correlation_id=new_id())

    async def is_valid(self, secret: str) -> bool:
        """Whether a request with this secret would be let in now."""
        holder = await self._store.find_by_digest(digest_of(secret)) if has_form(secret) else None
        if holder is None or holder.key.revoked_at is not None:
            return False
        return holder.key.expires_at is None or holder.key.expires_at > _now()

    async def _operator_of(self, key_id: str) -> Identity:
        for company in await self._accounts.companies():
            key = await self._manager.find(company.id, key_id)
            if key is not None:
                return Identity(company_id=company.id, user_id=key.user_id, key_id="operator", scopes=ALL_SCOPES)
        raise NotFound(f"There is no API key '{key_id}'.")


@asynccontextmanager
async def administration(database_url: str) -> AsyncIterator[Administration]:
    """The administration of the gateway whose migrated database that is."""
    database = Database(database_url, name="gateway-administration", max_size=2)
    await database.open()
    try:
        yield Administration(database)
    finally:
        await database.close()


async def ensure_development_key(database_url: str, existing: str | None = None) -> str:
    """The secret of a key of the development company: all scopes, no rate limit, no expiry.

    Returns ``existing`` while it is valid, otherwise makes a new key. The caller keeps the secret.
    """
    async with administration(database_url) as office:
        if existing is not None and await office.is_valid(existing):
            return existing
        with suppress(Conflict):
            await office.create_company(DEVELOPMENT_COMPANY, rate_limit=None)
        with suppress(Conflict):
            await office.create_user(DEVELOPMENT_COMPANY, "developer")
        return (await office.create_key(DEVELOPMENT_COMPANY, "developer", name="development")).secret


def _name(text: str) -> str:
    if not 1 <= len(text.strip()) <= 200 or "\0" in text:
        raise ValidationFailed("A name has 1 to 200 characters.")
    return text.strip()


def _nothing_cached(_: str) -> None:
    """Replicas of the gateway hear of it from the bus."""


def _now() -> datetime:
    return datetime.now(UTC)
