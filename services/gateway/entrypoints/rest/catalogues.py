"""``/models/`` and ``/tools/``: what agents can be built from."""

from typing import Annotated

from fastapi import Security
from starlette.responses import Response

from libs.contracts.identity import Scope
from services.gateway.domain.accounts import Principal
from services.gateway.entrypoints.door.application import Upstream
from services.gateway.entrypoints.door.callers import by_api_key
from services.gateway.entrypoints.door.described import answer
from services.gateway.entrypoints.door.queries import ShortPage
from services.gateway.entrypoints.door.routes import public_router
from services.gateway.entrypoints.rest.schemas import ModelPage, ToolPage

router = public_router("", "Catalogues")
Reader = Annotated[Principal, Security(by_api_key, scopes=[Scope.AGENTS_READ])]


@router.get(
    "/models/",
    summary="List the models that agents can use",
    responses={200: answer("Models of the providers that are configured.", ModelPage)},
)
async def list_models(caller: Reader, page: ShortPage, upstream: Upstream) -> Response:
    return await upstream.get(caller, "runtime", "/internal/models", page.params())


@router.get(
    "/tools/",
    summary="List the tools that agents can use",
    responses={200: answer("The built-in tools, then those of your company's toolsets.", ToolPage)},
)
async def list_tools(caller: Reader, page: ShortPage, upstream: Upstream) -> Response:
    return await upstream.get(caller, "registry", "/internal/company/tools", page.params())
