"""``/api-keys/…`` and ``/me/``: credentials and whose they are."""

from collections.abc import Callable
from datetime import datetime
from typing import Final

from libs.contracts.identity import Scope
from libs.contracts.timestamps import format_time
from services.gateway.domain.accounts import ApiKey
from services.gateway.domain.ports import KeyStore
from services.gateway.entrypoints.http import examples
from services.gateway.entrypoints.http.messages import Reply, Request
from services.gateway.entrypoints.http.operations import Answer, Body, Operation
from services.gateway.entrypoints.http.schemas import (
    CreateKeyBody,
    IssuedKeyReply,
    Key,
    KeyPage,
    Me,
    RotateKeyBody,
)
from services.gateway.entrypoints.http.validation import expiry, page_of
from services.gateway.use_cases.change_keys import CreateKey, IssuedKey, IssueKey, KeyRequest, RevokeKey, RotateKey

_TAG: Final = "Access"
_ONCE: Final = "The secret is shown this once; only a hash of it is kept."


class Keys:
    def __init__(self, store: KeyStore, *, now: Callable[[], datetime], forget: Callable[[str], None]) -> None:
        self._store = store
        self._create_key = CreateKey(IssueKey(store, now))
        self._rotate_key = RotateKey(store, now)
        self._revoke_key = RevokeKey(store, now, forget)
        self._now = now

    async def me(self, request: Request) -> Reply:
        principal = request.principal
        identity = principal.identity
        me = Me(
            user_id=identity.user_id,
            user_name=identity.user_name,
            company_id=identity.company_id,
            company_name=identity.company_name,
            key_id=identity.key_id,
            scopes=sorted(identity.scopes),
            rate_limit=principal.rate_limit,
            expires_at=_text(principal.expires_at),
        )
        return Reply(200, me.model_dump_json().encode())

    async def list(self, request: Request) -> Reply:
        limit, offset = page_of(request.query)
        keys, total = await self._store.keys(request.principal.identity, limit=limit, offset=offset)
        page = KeyPage(
            api_keys=[Key.model_validate(_fields(key)) for key in keys],
            total=total,
            has_more=offset + len(keys) < total,
        )
        return Reply(200, page.model_dump_json().encode())

    async def create(self, request: Request) -> Reply:
        body: CreateKeyBody = request.body
        own = request.principal.identity.scopes
        wanted = KeyRequest(
            name=body.name,
            scopes=own if body.scopes is None else frozenset(body.scopes),
            expires_at=expiry(body.expires_at, self._now()),
            rate_limit=body.rate_limit,
        )
        return _issued(await self._create_key(request.write(), request.principal, wanted))

    async def revoke(self, request: Request) -> Reply:
        await self._revoke_key(request.write(), request.parameters["id"])
        return Reply(204)

    async def rotate(self, request: Request) -> Reply:
        body: RotateKeyBody = request.body
        expires_at = expiry(body.expires_at, self._now())
        key_id, grace = request.parameters["id"], body.grace_seconds
        return _issued(await self._rotate_key(request.write(), key_id, expires_at=expires_at, grace_seconds=grace))

    def operations(self) -> tuple[Operation, ...]:
        return (
            Operation(
                method="GET",
                path="/me/",
                name="get_me",
                summary="Who am I",
                tag=_TAG,
                handler=self.me,
                answers={200: Answer(description="The caller.", model=Me)},
            ),
            Operation(
                method="GET",
                path="/api-keys/",
                name="list_api_keys",
                summary="List API keys",
                description="Your own; with a `company:…` scope all of the company. Never with their secrets.",
                tag=_TAG,
                handler=self.list,
                scope=Scope.KEYS_READ,
                paged=True,
                answers={200: Answer(description="Keys, newest first.", model=KeyPage)},
                errors=(422,),
            ),
            Operation(
                method="POST",
                path="/api-keys/",
                name="create_api_key",
                summary="Make an API key",
                description=f"{_ONCE} A key cannot be given scopes that its maker lacks.",
                tag=_TAG,
                handler=self.create,
                scope=Scope.KEYS_WRITE,
                writes=True,
                body=Body(model=CreateKeyBody, examples=examples.KEYS),
                answers={201: Answer(description="The new key.", model=IssuedKeyReply)},
                errors=(409,),
            ),
            Operation(
                method="DELETE",
                path="/api-keys/{id}/",
                name="revoke_api_key",
                summary="Revoke an API key",
                description="It stops working at once, and its open streams end.",
                tag=_TAG,
                handler=self.revoke,
                scope=Scope.KEYS_WRITE,
                answers={204: Answer(description="The key does not work any more.")},
                errors=(404,),
            ),
            Operation(
                method="POST",
                path="/api-keys/{id}/rotate/",
                name="rotate_api_key",
                summary="Replace an API key",
                description=f"The old key and the new one are both valid for a grace period. {_ONCE}",
                tag=_TAG,
                handler=self.rotate,
                scope=Scope.KEYS_WRITE,
                writes=True,
                body=Body(model=RotateKeyBody, examples=examples.ROTATION, required=False),
                answers={201: Answer(description="The new key.", model=IssuedKeyReply)},
                errors=(404, 409),
            ),
        )


def _issued(issued: IssuedKey) -> Reply:
    reply = IssuedKeyReply.model_validate({**_fields(issued.key), "secret": issued.secret})
    return Reply(201, reply.model_dump_json().encode(), [(b"cache-control", b"no-store")])


def _fields(key: ApiKey) -> dict[str, object]:
    return {
        "id": key.id,
        "name": key.name,
        "prefix": key.prefix,
        "scopes": sorted(key.scopes),
        "user_id": key.user_id,
        "rate_limit": key.rate_limit,
        "created_at": key.created_at,
        "expires_at": key.expires_at,
        "revoked_at": key.revoked_at,
        "successor_id": key.successor_id,
    }


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else format_time(moment)
