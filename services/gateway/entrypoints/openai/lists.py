"""Queries and lists in the form of OpenAI's API."""

from collections.abc import Sequence
from typing import Final

from fastapi import Request

from services.gateway.entrypoints.http.validation import check_parameters, number_of
from services.gateway.entrypoints.openai.conventions import refuse
from services.gateway.entrypoints.openai.response_items import Json

PAGING: Final = ("after", "limit", "order")
DEFAULT_LIMIT: Final = 20
MAX_LIMIT: Final = 100


def query_of(request: Request, names: Sequence[str]) -> dict[str, str]:
    """The query's parameters. Raises ``ValidationFailed`` for any that is not one of these."""
    return check_parameters(request.scope["query_string"], names)


def paging_of(given: dict[str, str], order: str = "desc") -> tuple[int, bool, str | None]:
    """The limit, whether the newest come first, and the id to go on after."""
    wanted = given.get("order", order)
    if wanted not in ("asc", "desc"):
        raise refuse("order", "The order is asc or desc.", "invalid_value")
    return number_of(given, "limit", DEFAULT_LIMIT, 1, MAX_LIMIT), wanted == "desc", given.get("after")


def listed(items: Sequence[Json], given: dict[str, str]) -> Json:
    """A page of items that are given oldest first."""
    limit, newest_first, after = paging_of(given)
    ordered = list(reversed(items)) if newest_first else list(items)
    if after is not None:
        place = next((number for number, item in enumerate(ordered) if item["id"] == after), None)
        if place is None:
            raise refuse("after", f"There is no item {after[:100]!r}.", "invalid_value")
        ordered = ordered[place + 1 :]
    return page_object(ordered[:limit], has_more=len(ordered) > limit)


def page_object(items: Sequence[Json], *, has_more: bool) -> Json:
    return {
        "object": "list",
        "data": list(items),
        "first_id": items[0]["id"] if items else None,
        "last_id": items[-1]["id"] if items else None,
        "has_more": has_more,
    }
