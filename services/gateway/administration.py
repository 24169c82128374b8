"""Lets operators manage companies, users and keys directly in the gateway's database."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Final

from psycopg.errors import UniqueViolation

from libs.contracts.errors import Conflict, NotFound, ValidationFailed
from libs.contracts.identifiers import is_id, new_id
from libs.contracts.identity import Identity
from libs.eventing import Outbox
from libs.persistence import Database
from services.gateway.adapters.postgres.keys import PostgresKeys
from services.gateway.domain.accounts import (
    ALL_SCOPES,
    DEFAULT_RATE_LIMIT,
    OPERATOR_SCOPES,
    ApiKey,
    Company,
    User,
    digest_of,
    has_form,
)
from services.gateway.domain.idempotency import Write
from services.gateway.use_cases.keys import IssuedKey, Keys

DEVELOPMENT_COMPANY: Final = "Development"
DEVELOPMENT_KEY: Final = "development"
_PAGE: Final = 200
_COMPANIES: Final = "SELECT id::text, name, rate_limit, created_at FROM companies"
_USERS: Final = "SELECT id::text, company_id::text, name, created_at FROM users WHERE company_id = %s"
_ADD_COMPANY: Final = (
    "INSERT INTO companies (id, name, rate_limit, created_at) VALUES (%(id)s, %(name)s, %(rate_limit)s, %(created_at)s)"
)
_ADD_USER: Final = (
    "INSERT INTO users (id, company_id, name, created_at) VALUES (%(id)s, %(company_id)s, %(name)s, %(created_at)s)"
)


class Administration:
    """Manages companies, users and keys. Methods accept the name or ID of a company or user."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # A running gateway relays the stored events.
        self._store = PostgresKeys(database, Outbox(database))
        self._keys = Keys(self._store, _now)

    async def create_company(self, name: str, *, rate_limit: int | None = DEFAULT_RATE_LIMIT) -> Company:
        """Creates a company. Raises ``Conflict`` if the name is already in use.

        ``rate_limit``: the default for new keys, in requests per minute, or None for no limit.
        """
        company = Company(id=new_id(), name=_name(name), rate_limit=rate_limit, created_at=_now())
        await self._add(
            _ADD_COMPANY, asdict(company), f"A company named '{company.name}' already exists. Choose another name."
        )
        return company

    async def companies(self) -> Sequence[Company]:
        return [Company(**row) for row in await self._database.records(f"{_COMPANIES} ORDER BY created_at")]

    async def company(self, company: str) -> Company:
        rows = await self._database.records(f"{_COMPANIES} WHERE {_column(company)} = %s", (company,))
        if not rows:
            raise NotFound(f"The company '{company}' doesn't exist. List all companies with 'aes companies list'.")
        return Company(**rows[0])

    async def create_user(self, company: str, name: str) -> User:
        """Creates a user. Raises ``Conflict`` if the company already has a user with this name."""
        owner = await self.company(company)
        user = User(id=new_id(), company_id=owner.id, name=_name(name), created_at=_now())
        await self._add(
            _ADD_USER, asdict(user), f"This company already has a user named '{user.name}'. Choose another name."
        )
        return user

    async def users(self, company: str) -> Sequence[User]:
        owner = await self.company(company)
        return [User(**row) for row in await self._database.records(f"{_USERS} ORDER BY created_at", (owner.id,))]

    async def user(self, company: str, user: str) -> User:
        owner = await self.company(company)
        rows = await self._database.records(f"{_USERS} AND {_column(user)} = %s", (owner.id, user))
        if not rows:
            raise NotFound(
                f"The company '{owner.name}' doesn't have a user '{user}'. List its users with 'aes users list'."
            )
        return User(**rows[0])

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
        """Creates a key, which never expires by default. ``rate_limit`` defaults to the company's limit."""
        unknown = sorted(scopes - OPERATOR_SCOPES)
        if unknown:
            raise ValidationFailed(f"Unknown scopes: {', '.join(unknown)}.")
        owner = await self.company(company)
        user_id = (await self.user(company, user)).id
        return await self._keys.issue(
            _write(owner.id, user_id),
            owner.id,
            user_id,
            name=name,
            scopes=scopes,
            expires_at=expires_at,
            rate_limit=owner.rate_limit if rate_limit is None else rate_limit,
        )

    async def keys(self, company: str) -> Sequence[ApiKey]:
        """Returns all keys of a company, newest first, including expired and revoked ones."""
        operator = _write((await self.company(company)).id).identity
        keys: list[ApiKey] = []
        cursor: str | None = None
        while True:
            page = await self._keys.page(operator, limit=_PAGE, offset=0, cursor=cursor)
            keys.extend(page.items)
            if (cursor := page.next) is None:
                return keys

    async def key(self, key_id: str) -> ApiKey:
        found = await self._store.find_by_id(key_id) if is_id(key_id) else None
        if found is None:
            raise NotFound(f"The API key '{key_id}' doesn't exist. List a company's keys with 'aes keys list'.")
        return found.key

    async def rotate_key(self, key_id: str, *, grace_seconds: int, expires_at: datetime | None = None) -> IssuedKey:
        """Replaces a key. The old key stays valid for ``grace_seconds``. Raises ``Conflict`` if
        it's no longer valid.
        """
        write = await self._write_to(key_id)
        return await self._keys.rotate(write, key_id, expires_at=expires_at, grace_seconds=grace_seconds)

    async def revoke_key(self, key_id: str) -> None:
        # The gateway's replicas drop the key from their caches when they receive the event.
        await self._keys.revoke(await self._write_to(key_id), key_id)

    async def valid_key(self, secret: str) -> ApiKey | None:
        """Returns the key with this secret, if the gateway would accept a request with it."""
        found = await self._store.find_by_digest(digest_of(secret)) if has_form(secret) else None
        return found.key if found is not None and found.key.state(_now()) == "valid" else None

    async def grant_scopes(self, key: ApiKey, scopes: frozenset[str]) -> None:
        """Replaces a key's scopes. Gateways apply the change when their cached copy of the key expires."""
        await self._store.change_scopes(key, scopes)

    async def _add(self, statement: str, values: dict[str, Any], taken: str) -> None:
        try:
            await self._database.execute(statement, values)
        except UniqueViolation:
            raise Conflict(taken) from None

    async def _write_to(self, key_id: str) -> Write:
        key = await self.key(key_id)
        return _write(key.company_id, key.user_id)


@asynccontextmanager
async def administration(database_url: str) -> AsyncIterator[Administration]:
    """Connects to a gateway's database, whose migrations must have been applied."""
    database = Database(database_url, name="gateway-administration", max_size=2, prepare=False)
    await database.open()
    try:
        yield Administration(database)
    finally:
        await database.close()


async def ensure_development_key(database_url: str, existing: str | None = None) -> str:
    """Returns the secret of a key for the development company. Creates the key unless ``existing`` is valid.

    The new key has all scopes and neither a rate limit nor an expiry. An existing development key gains the scopes that
    it lacks. The caller must store the secret.
    """
    async with administration(database_url) as gateway:
        key = await gateway.valid_key(existing) if existing is not None else None
        if existing is not None and key is not None:
            if key.name == DEVELOPMENT_KEY and key.scopes != OPERATOR_SCOPES:
                await gateway.grant_scopes(key, OPERATOR_SCOPES)
            return existing
        with suppress(Conflict):
            await gateway.create_company(DEVELOPMENT_COMPANY, rate_limit=None)
        with suppress(Conflict):
            await gateway.create_user(DEVELOPMENT_COMPANY, "developer")
        issued = await gateway.create_key(
            DEVELOPMENT_COMPANY, "developer", scopes=OPERATOR_SCOPES, name=DEVELOPMENT_KEY
        )
        return issued.secret


def _column(name_or_id: str) -> str:
    return "id" if is_id(name_or_id) else "name"


def _name(text: str) -> str:
    if not 1 <= len(text.strip()) <= 200 or "\0" in text:
        raise ValidationFailed("Invalid name. Use 1 to 200 characters.")
    return text.strip()


def _write(company_id: str, user_id: str = "operator") -> Write:
    """Returns a write by an operator, who may change anything in the company."""
    identity = Identity(company_id=company_id, user_id=user_id, key_id="operator", scopes=OPERATOR_SCOPES)
    return Write(identity=identity, correlation_id=new_id())


def _now() -> datetime:
    return datetime.now(UTC)
