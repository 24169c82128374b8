"""Pages of lists by cursor: ``after``, ``limit`` and ``order``."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
from fastapi import Request
from starlette.responses import Response

from libs.contracts.errors import ValidationFailed
from services.gateway.entrypoints.http.forwarding import json_answer
from services.gateway.entrypoints.http.validation import check_parameters, number_of
from services.gateway.entrypoints.openai.conventions import refuse

_LONGEST: Final = 200


@dataclass(frozen=True, slots=True)
class Cursor:
    """``filters``: the other parameters that the list knows."""

    after: str | None
    limit: int
    order: str
    filters: dict[str, str]

    @property
    def newest_first(self) -> bool:
        return self.order == "desc"

    def upstream(self) -> dict[str, Any]:
        wanted = {"limit": self.limit, "order": self.order, "after": self.after}
        return {name: value for name, value in wanted.items() if value is not None}


def cursor_of(request: Request, *, default: int = 20, most: int = 100, filters: Sequence[str] = ()) -> Cursor:
    """Raises ``ValidationFailed`` for other parameters, and for values that cannot be used.

    A page has 200 entries at most, also when more are asked for.
    """
    given = check_parameters(request.scope["query_string"], ("after", "limit", "order", *filters))
    if (order := given.get("order", "desc")) not in ("asc", "desc"):
        raise refuse("order", "order is asc or desc.", "invalid_value")
    limit = min(number_of(given, "limit", default, 1, most), _LONGEST)
    return Cursor(given.get("after"), limit, order, {name: given[name] for name in filters if name in given})


def page(data: Sequence[dict[str, Any]], *, has_more: bool) -> Response:
    return json_answer(
        orjson.dumps(
            {
                "object": "list",
                "data": data,
                "first_id": data[0]["id"] if data else None,
                "last_id": data[-1]["id"] if data else None,
                "has_more": has_more,
            }
        )
    )


def page_within(entries: Sequence[dict[str, Any]], cursor: Cursor) -> Response:
    """A page of entries that are all there, oldest first. Raises ``ValidationFailed`` for an unknown cursor."""
    ordered = list(reversed(entries)) if cursor.newest_first else list(entries)
    if cursor.after is not None:
        place = next((place for place, entry in enumerate(ordered) if entry["id"] == cursor.after), None)
        if place is None:
            raise unknown_cursor()
        ordered = ordered[place + 1 :]
    return page(ordered[: cursor.limit], has_more=len(ordered) > cursor.limit)


def unknown_cursor() -> ValidationFailed:
    return refuse("after", "after names none of these.", "invalid_value")
