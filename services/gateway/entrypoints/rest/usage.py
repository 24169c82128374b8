"""``/usage/``: what turns took."""

from typing import Annotated

from fastapi import Query, Security
from starlette.responses import Response

from libs.contracts.api.usage import UsageReport
from libs.contracts.identity import Scope
from libs.contracts.timestamps import format_time
from services.gateway.domain.accounts import Principal
from services.gateway.entrypoints.door.application import Upstream
from services.gateway.entrypoints.door.callers import by_api_key
from services.gateway.entrypoints.door.described import answer
from services.gateway.entrypoints.door.routes import public_router
from services.gateway.entrypoints.rest.resources import ResourcesDep
from services.gateway.entrypoints.rest.usage_query import UsageQuery

router = public_router("/usage", "Usage")


@router.get(
    "/",
    summary="Read usage",
    description=(
        "What ended turns took, failed and cancelled ones included: your own, with a `company:…` scope the company's."
        " A turn counts in the hour of its end (UTC), within a second or so. `cost` is an exact decimal at the prices"
        " of the time; turns of models without a price are counted in `unpriced_turns`."
    ),
    responses={200: answer("Sums by group, in the groups' order, and of everything.", UsageReport)},
)
async def get_usage(
    caller: Annotated[Principal, Security(by_api_key, scopes=[Scope.USAGE_READ])],
    wanted: Annotated[UsageQuery, Query()],
    resources: ResourcesDep,
    upstream: Upstream,
) -> Response:
    begin, end = wanted.span(resources.now())
    params = {
        "begin": format_time(begin),
        "end": format_time(end),
        "group": list(wanted.groups),
        "limit": wanted.limit,
        "offset": wanted.offset,
    }
    return await upstream.get(caller, "timeline", "/internal/usage", params)
