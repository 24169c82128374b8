"""Serves ``/secrets/…``: write-only values for the headers of tool calls."""

import re
from typing import Annotated, Final

from fastapi import Depends, Security
from starlette.responses import Response

from libs.contracts.errors import ErrorDetail, NotFound, ValidationFailed
from libs.contracts.identity import Scope
from libs.contracts.resources.secrets import NAME_PATTERN, DeleteSecret, PutSecretBody, Secret, SecretPage
from services.gateway.domain.accounts import Principal
from services.gateway.entrypoints.door.answers import rendered
from services.gateway.entrypoints.door.application import Submit, Upstream
from services.gateway.entrypoints.door.bodies import ParsedBody
from services.gateway.entrypoints.door.callers import by_api_key
from services.gateway.entrypoints.door.queries import Page
from services.gateway.entrypoints.door.routes import answer, errors, public_router
from services.gateway.entrypoints.door.writes import PlainWrite
from services.gateway.entrypoints.rest.resources import ResourcesDep

router = public_router("/secrets", "Toolsets")
Reader = Annotated[Principal, Security(by_api_key, scopes=[Scope.TOOLSETS_READ])]
Writer = Annotated[Principal, Security(by_api_key, scopes=[Scope.SECRETS_WRITE])]
_NAME: Final = re.compile(NAME_PATTERN)
SecretValue = Annotated[PutSecretBody, Depends(ParsedBody(PutSecretBody))]


@router.get(
    "/",
    operation_id="secrets.list",
    summary="List secrets",
    description="Returns names and timestamps. No operation returns a secret's value.",
    responses={200: answer("The secrets, by name.", SecretPage)},
)
async def list_secrets(caller: Reader, page: Page, upstream: Upstream) -> Response:
    return await upstream.get(caller, "registry", "/internal/company/secrets", page.params())


@router.get(
    "/{name}/",
    operation_id="secrets.get",
    summary="Get a secret",
    responses={200: answer("The secret's name and timestamps.", Secret), **errors(404)},
)
async def get_secret(name: str, caller: Reader, upstream: Upstream) -> Response:
    return await upstream.get(caller, "registry", f"/internal/company/secrets/{_known(name)}")


# Takes no Idempotency-Key: storing the same value twice is harmless, and the value could be guessed from a stored hash.
@router.put(
    "/{name}/",
    operation_id="secrets.put",
    summary="Store a secret",
    description=(
        "Stores a secret, or replaces its value. Reference it in toolset headers as `${secret:NAME}`. The value is"
        " stored encrypted and never returned; new calls use it. A name has 1 to 64 characters (letters, digits,"
        " `_` or `-`) and starts with a letter."
    ),
    responses={200: answer("The secret's name and timestamps.", Secret), **errors(409, 422, 504)},
)
async def put_secret(name: str, _: Writer, body: SecretValue, write: PlainWrite, resources: ResourcesDep) -> Response:
    if not _NAME.fullmatch(name):
        message = "a name must have 1 to 64 characters (letters, digits, _ or -) and start with a letter"
        detail = ErrorDetail(
            loc=["path", "name"], type="string_pattern_mismatch", message=message, hint="TICKETS_TOKEN"
        )
        raise ValidationFailed(f"Invalid path: {message}.", details=[detail])
    return rendered(await resources.secrets.put(write, name, body.value), "secret")


@router.delete(
    "/{name}/",
    operation_id="secrets.delete",
    summary="Delete a secret",
    description="Calls to tools whose headers reference the secret will fail.",
    status_code=204,
    responses={204: answer("The secret was deleted."), **errors(404)},
)
async def delete_secret(name: str, _: Writer, submit: Submit) -> Response:
    return rendered(await submit(DeleteSecret(name=_known(name))))


def _known(name: str) -> str:
    """Raises ``NotFound`` for an invalid name, which no secret can have."""
    if not _NAME.fullmatch(name):
        raise NotFound("There is no secret with this name.")
    return name
