"""``/auth/token/``: short-lived credentials for browsers and links."""

from typing import Annotated

from fastapi import Depends, Security
from starlette.responses import Response

from services.gateway.domain.accounts import Principal
from services.gateway.entrypoints.http import examples
from services.gateway.entrypoints.http.authentication import by_api_key
from services.gateway.entrypoints.http.bodies import ParsedBody
from services.gateway.entrypoints.http.dependencies import UseCasesDep
from services.gateway.entrypoints.http.forwarding import json_answer
from services.gateway.entrypoints.http.paths import public_router
from services.gateway.entrypoints.http.reference.described import answer, errors
from services.gateway.entrypoints.http.schemas import TokenBody, TokenReply

router = public_router("/auth", "Access")


@router.post(
    "/token/",
    summary="Make a bearer token",
    description=(
        "A bearer token, as good as the key for its scopes, valid for an hour at most. It ends when its"
        " key does: at once when that is revoked. Tokens are not kept; a repeat of the request makes another one."
    ),
    responses={200: answer("The token.", TokenReply), **errors(403)},
)
async def create_token(
    caller: Annotated[Principal, Security(by_api_key)],
    body: Annotated[TokenBody, Depends(ParsedBody(TokenBody, examples.TOKENS, required=False))],
    use: UseCasesDep,
) -> Response:
    scopes = None if body.scopes is None else frozenset(body.scopes)
    issued = use.issue_token(caller, scopes, body.expires_in)
    reply = TokenReply.model_validate(
        {
            "access_token": issued.text,
            "expires_in": issued.seconds,
            "expires_at": issued.grant.expires_at,
            "scopes": issued.grant.scopes,
        }
    )
    return json_answer(reply.model_dump_json().encode(), headers={"Cache-Control": "no-store"})
