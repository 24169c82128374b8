"""Serves usage over the internal API, in the format of the public API."""

from datetime import datetime
from typing import Annotated

from fastapi import FastAPI, Query
from starlette.responses import Response

from libs.contracts.resources.usage import UsageGroup, UsageReport
from libs.service_defaults import Caller, Offset
from services.timeline.domain.usage import UsageSpan, UsageStore

Groups = Annotated[list[UsageGroup], Query()]


def serve_usage(http: FastAPI, usage: UsageStore) -> None:
    @http.get("/internal/usage")
    async def get_usage(
        who: Caller,
        begin: datetime,
        end: datetime,
        limit: Annotated[int, Query(ge=1, le=1000)] = 200,
        offset: Offset = 0,
        group: Groups = [],  # noqa: B006
        user_id: str | None = None,
        key_id: str | None = None,
    ) -> Response:
        """Returns the usage of a period of whole hours. Other users' usage requires a ``company:…`` scope."""
        span = UsageSpan(
            company_id=who.company_id,
            user_id=user_id if who.reads_company else who.user_id,
            key_id=key_id,
            begin=begin,
            end=end,
        )
        page = await usage.usage(span, group, limit=limit, offset=offset)
        report = UsageReport.model_validate(
            {
                "from": begin,
                "to": end,
                "group_by": list(group),
                "usage": page.items,
                "totals": page.totals,
                "total": page.number,
                "has_more": offset + len(page.items) < page.number,
            }
        )
        body = report.model_dump_json(by_alias=True, exclude_unset=True)
        return Response(body, media_type="application/json")
