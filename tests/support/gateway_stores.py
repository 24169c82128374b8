"""The gateway's stores in memory: keys, connections and idempotency keys."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from libs.contracts.errors import quota_exceeded
from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.contracts.pages import Page
from services.gateway.domain.accounts import ALL_SCOPES, ApiKey, KeyOwner, new_secret
from services.gateway.domain.connections import Connection, ConnectionOwner
from services.gateway.domain.idempotency import IdempotencyRecord, IdempotentRequest, KeyReused, Write
from tests.support.pages import page_within

_TURNS_OF_THE_LOOP = 20


class FakeIdempotency:
    def __init__(self) -> None:
        self.recorded: dict[tuple[str, ...], tuple[bytes, IdempotencyRecord]] = {}

    async def record(self, request: IdempotentRequest, *, command_id: str, correlation_id: str) -> IdempotencyRecord:
        key = (request.company_id, request.principal_id, request.method, request.path, request.key)
        if key not in self.recorded:
            record = IdempotencyRecord(command_id=command_id, correlation_id=correlation_id)
            self.recorded[key] = (request.body_hash, record)
            return record
        body_hash, record = self.recorded[key]
        if body_hash != request.body_hash:
            raise KeyReused(record.command_id, body_hash)
        return replace(record, repeated=True)

    async def find(self, request: IdempotentRequest) -> str | None:
        # Later, as from a database: whoever looks must not be gone by then.
        for _ in range(_TURNS_OF_THE_LOOP):
            await asyncio.sleep(0)
        key = (request.company_id, request.principal_id, request.method, request.path, request.key)
        return self.recorded[key][1].command_id if key in self.recorded else None

    async def renew(
        self, request: IdempotentRequest, *, refused: str, command_id: str, correlation_id: str
    ) -> IdempotencyRecord:
        key = (request.company_id, request.principal_id, request.method, request.path, request.key)
        body_hash, record = self.recorded[key]
        if record.command_id != refused:
            return replace(record, repeated=True)
        self.recorded[key] = (body_hash, replace(record, command_id=command_id))
        return self.recorded[key][1]

    async def claim(self, write: Write, entity_id: str) -> None:
        if write.request is not None:
            record = await self.record(write.request, command_id=entity_id, correlation_id=write.correlation_id)
            if record.repeated:
                raise KeyReused(record.command_id, write.request.body_hash)


class FakeKeys:
    def __init__(self, idempotency: FakeIdempotency) -> None:
        self.by_digest: dict[bytes, ApiKey] = {}
        self.loads = 0
        self._idempotency = idempotency

    def issue(self, **fields: Any) -> tuple[str, ApiKey]:
        """A stored key and its secret; what is left out is generous."""
        secret = new_secret()
        key = ApiKey(
            **{
                "id": new_id(),
                "company_id": "company-1",
                "user_id": "user-1",
                "name": "",
                "prefix": secret.prefix,
                "scopes": ALL_SCOPES,
                "rate_limit": None,
                "created_at": datetime(2029, 1, 1, tzinfo=UTC),
                "expires_at": None,
                **fields,
            }
        )
        self.by_digest[secret.digest] = key
        return secret.text, key

    def change(self, key_id: str, **fields: Any) -> None:
        for digest, key in self.by_digest.items():
            if key.id == key_id:
                self.by_digest[digest] = replace(key, **fields)

    async def has_user(self, company_id: str, user_id: str) -> bool:
        return any((key.company_id, key.user_id) == (company_id, user_id) for key in self.by_digest.values())

    async def find_by_digest(self, digest: bytes) -> KeyOwner | None:
        self.loads += 1
        key = self.by_digest.get(digest)
        return None if key is None else KeyOwner(key=key, company_name="Acme", user_name="Ada")

    async def find_by_id(self, key_id: str) -> KeyOwner | None:
        self.loads += 1
        found = [key for key in self.by_digest.values() if key.id == key_id]
        return KeyOwner(key=found[0], company_name="Acme", user_name="Ada") if found else None

    async def key(self, company_id: str, key_id: str) -> ApiKey | None:
        found = (key for key in self.by_digest.values() if (key.company_id, key.id) == (company_id, key_id))
        return next(found, None)

    async def keys(self, reader: Identity, *, limit: int, offset: int, cursor: str | None = None) -> Page[ApiKey]:
        found = [
            key
            for key in reversed(self.by_digest.values())
            if key.company_id == reader.company_id and reader.may_read_of(key.user_id)
        ]
        return page_within(found, limit=limit, offset=offset, cursor=cursor)

    async def count_valid(self, company_id: str) -> int:
        keys = [key for key in self.by_digest.values() if key.company_id == company_id]
        return sum(key.state(datetime(2030, 1, 1, tzinfo=UTC)) == "valid" for key in keys)

    async def add_key(self, key: ApiKey, digest: bytes, write: Write, *, most: int | None = None) -> None:
        await self._idempotency.claim(write, key.id)
        if most is not None and (count := await self.count_valid(key.company_id)) >= most:
            raise quota_exceeded("api_keys", most, count)
        self.by_digest[digest] = key

    async def replace_key(
        self,
        old: ApiKey,
        successor: ApiKey,
        digest: bytes,
        write: Write,
        *,
        old_expires_at: datetime,
        most: int | None = None,
    ) -> bool:
        current = await self.key(old.company_id, old.id)
        if current is None or current.successor_id or current.revoked_at:
            return False
        await self.add_key(successor, digest, write, most=most)
        ends = min(old_expires_at, current.expires_at or old_expires_at)
        self.change(old.id, successor_id=successor.id, expires_at=ends)
        return True

    async def revoke_key(self, key: ApiKey, write: Write, *, at: datetime) -> None:
        self.change(key.id, revoked_at=at)


class FakeConnections:
    def __init__(self, idempotency: FakeIdempotency) -> None:
        self.stored: dict[str, Connection] = {}
        self.loads = 0
        self._idempotency = idempotency

    async def by_key(self, key: str) -> ConnectionOwner | None:
        self.loads += 1
        found = [each for each in self.stored.values() if each.key == key]
        return ConnectionOwner(connection=found[0], company_name="Acme", user_name="Ada") if found else None

    async def connection(self, company_id: str, connection_id: str) -> Connection | None:
        found = self.stored.get(connection_id)
        return found if found is not None and found.company_id == company_id else None

    async def connections(
        self, reader: Identity, *, limit: int, offset: int, cursor: str | None = None
    ) -> Page[Connection]:
        found = [
            each
            for each in reversed(self.stored.values())
            if each.company_id == reader.company_id and reader.may_read_of(each.user_id)
        ]
        return page_within(found, limit=limit, offset=offset, cursor=cursor)

    async def add(self, connection: Connection, write: Write) -> None:
        await self._idempotency.claim(write, connection.id)
        self.stored[connection.id] = connection

    async def delete(self, connection: Connection, write: Write) -> None:
        self.stored.pop(connection.id, None)
