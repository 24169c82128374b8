"""Serves ``/api-keys/…``, ``/auth/token/`` and ``/me/``."""

from dataclasses import asdict
from typing import Annotated

from fastapi import Depends, Security
from starlette.responses import Response

from libs.contracts.identity import Scope
from libs.contracts.resources.accounts import Me
from libs.contracts.resources.keys import CreateKeyBody, IssuedKeyReply, Key, KeyPage, RotateKeyBody
from libs.contracts.resources.tokens import TokenBody, TokenReply
from services.gateway.domain.accounts import Principal, expiry
from services.gateway.entrypoints.door.answers import model_answer
from services.gateway.entrypoints.door.bodies import ParsedBody
from services.gateway.entrypoints.door.callers import by_api_key, by_api_key_or_public_key
from services.gateway.entrypoints.door.queries import Page
from services.gateway.entrypoints.door.routes import answer, errors, public_router
from services.gateway.entrypoints.door.writes import IdempotentWrite, PlainWrite
from services.gateway.entrypoints.rest.resources import ResourcesDep
from services.gateway.use_cases.keys import IssuedKey, issue_token

router = public_router("", "Access")
Reader = Annotated[Principal, Security(by_api_key, scopes=[Scope.KEYS_READ])]
Writer = Annotated[Principal, Security(by_api_key, scopes=[Scope.KEYS_WRITE])]
NewKey = Annotated[CreateKeyBody, Depends(ParsedBody(CreateKeyBody))]
Rotation = Annotated[RotateKeyBody, Depends(ParsedBody(RotateKeyBody, required=False))]
WantedToken = Annotated[TokenBody, Depends(ParsedBody(TokenBody, required=False))]


@router.get(
    "/me/",
    operation_id="me.get",
    summary="Get your identity, permissions and limits",
    description="For a public key, returns its permissions, but not its owner or the company's limits.",
    responses={200: answer("The caller.", Me)},
)
async def get_me(caller: Annotated[Principal, Security(by_api_key_or_public_key)], resources: ResourcesDep) -> Response:
    is_public = caller.public is not None
    limits = {} if is_public else await resources.limits.of(caller.identity)
    names = {"user_name": "", "company_name": ""} if is_public else {}
    me = Me.model_validate(
        {
            **caller.identity.model_dump(),
            **names,
            "rate_limit": caller.rate_limit,
            "expires_at": caller.expires_at,
            "limits": limits,
        }
    )
    return model_answer(me)


@router.get(
    "/api-keys/",
    operation_id="api_keys.list",
    summary="List API keys",
    description="Lists your keys. With a `company:…` scope, lists all company keys. Secrets aren't included.",
    responses={200: answer("Keys, newest first.", KeyPage)},
)
async def list_api_keys(caller: Reader, page: Page, resources: ResourcesDep) -> Response:
    found = await resources.keys.page(caller.identity, **page.params())
    shown = KeyPage(api_keys=[Key.model_validate(asdict(key)) for key in found.items], **found.facts)
    return model_answer(shown)


@router.post(
    "/api-keys/",
    operation_id="api_keys.create",
    summary="Create an API key",
    description=(
        "The secret is returned only once. Only its hash is stored. A key can't have scopes that its creator lacks."
        " `scopes` defaults to the creator's scopes, except installation scopes."
    ),
    status_code=201,
    responses={201: answer("The new key.", IssuedKeyReply), **errors(409)},
)
async def create_api_key(caller: Writer, body: NewKey, write: IdempotentWrite, resources: ResourcesDep) -> Response:
    return _issued(await resources.keys.create(write, caller, body))


@router.delete(
    "/api-keys/{id}/",
    operation_id="api_keys.revoke",
    summary="Revoke an API key",
    description="The key stops working immediately, and its open streams close.",
    status_code=204,
    responses={204: answer("The key no longer works."), **errors(404)},
)
async def revoke_api_key(id: str, _: Writer, write: PlainWrite, resources: ResourcesDep) -> Response:
    await resources.keys.revoke(write, id)
    return Response(status_code=204)


@router.post(
    "/api-keys/{id}/rotate/",
    operation_id="api_keys.rotate",
    summary="Rotate an API key",
    description="The old key stays valid for a grace period. The new key's secret is returned only once, and only its"
    " hash is stored.",
    status_code=201,
    responses={201: answer("The new key.", IssuedKeyReply), **errors(404, 409)},
)
async def rotate_api_key(
    id: str, _: Writer, body: Rotation, write: IdempotentWrite, resources: ResourcesDep
) -> Response:
    expires_at = expiry(body.expires_at, resources.now())
    return _issued(await resources.keys.rotate(write, id, expires_at=expires_at, grace_seconds=body.grace_seconds))


@router.post(
    "/auth/token/",
    operation_id="tokens.create",
    summary="Create a bearer token",
    description=(
        "Creates a token with some or all of the key's scopes, valid for at most an hour. The token expires when its"
        " key does, and stops working immediately if the key is revoked. Tokens aren't stored, so a retry returns a new"
        " token."
    ),
    responses={200: answer("The token.", TokenReply), **errors(403)},
)
async def create_token(
    caller: Annotated[Principal, Security(by_api_key)], body: WantedToken, resources: ResourcesDep
) -> Response:
    reply = issue_token(resources.tokens, caller, body, resources.now())
    return model_answer(reply, headers={"Cache-Control": "no-store"})


def _issued(issued: IssuedKey) -> Response:
    reply = IssuedKeyReply.model_validate({**asdict(issued.key), "secret": issued.secret})
    return model_answer(reply, 201, {"Cache-Control": "no-store"})
