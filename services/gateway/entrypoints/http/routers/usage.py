"""``/usage/``: what turns took."""

from typing import Annotated, Any

from fastapi import Query, Security
from starlette.responses import Response

from libs.contracts.decimals import decimal_text
from libs.contracts.identity import Scope
from services.gateway.domain.accounts import Principal
from services.gateway.domain.usage import UsageSpan, UsageSum
from services.gateway.entrypoints.http.authentication import by_api_key
from services.gateway.entrypoints.http.dependencies import UseCasesDep
from services.gateway.entrypoints.http.forwarding import json_answer
from services.gateway.entrypoints.http.reference.described import answer
from services.gateway.entrypoints.http.routing import public_router
from services.gateway.entrypoints.http.usage_query import UsageQuery
from services.gateway.entrypoints.http.usage_schemas import UsageItem, UsageReport, UsageTotals

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
    use: UseCasesDep,
) -> Response:
    begin, end = wanted.span(use.now())
    span = UsageSpan.visible_to(caller.identity, begin, end)
    page = await use.usage.usage(span, wanted.groups, limit=wanted.limit, offset=wanted.offset)
    report = UsageReport.model_validate(
        {
            "from": begin,
            "to": end,
            "group_by": list(wanted.groups),
            "usage": [_item(each) for each in page.sums],
            "totals": UsageTotals.model_validate(_numbers(page.totals)),
            "total": page.number,
            "has_more": wanted.offset + len(page.sums) < page.number,
        }
    )
    return json_answer(report.model_dump_json(by_alias=True, exclude_unset=True).encode())


def _item(found: UsageSum) -> UsageItem:
    """Only with the fields that it is grouped by; null for what is not known."""
    group = {name if name in ("day", "model") else f"{name}_id": value or None for name, value in found.group.items()}
    return UsageItem.model_validate({**group, **_numbers(found)})


def _numbers(found: UsageSum) -> dict[str, Any]:
    return {
        "turns": found.turns,
        "input_tokens": found.input_tokens,
        "output_tokens": found.output_tokens,
        "tool_calls": found.tool_calls,
        "seconds": float(found.seconds),
        "cost": decimal_text(found.cost),
        "unpriced_turns": found.unpriced_turns,
    }
