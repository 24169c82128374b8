"""Cursor-based pages of lists."""

from collections.abc import Sequence
from typing import Annotated, Any, Final

from fastapi import Query
from pydantic import AfterValidator
from starlette.responses import Response

from libs.contracts.errors import ValidationFailed
from services.gateway.entrypoints.door.answers import value_answer
from services.gateway.entrypoints.door.queries import QueryModel, Text, whole_number
from services.gateway.entrypoints.openai.conventions import refuse

_LONGEST: Final = 200


def _order(order: str) -> str:
    if order not in ("asc", "desc"):
        raise refuse("order", "`order` must be asc or desc.", "invalid_value")
    return order


class ListQuery(QueryModel):
    """The query for a list. A page has at most 200 entries, even with a higher ``limit``."""

    after: Text | None = None
    limit: Annotated[int, whole_number("limit", 1, 100, 20)] = 20
    order: Annotated[str, AfterValidator(_order)] = "desc"

    @property
    def newest_first(self) -> bool:
        return self.order == "desc"

    def upstream(self) -> dict[str, Any]:
        limit = min(self.limit, _LONGEST)
        return {"limit": limit, "order": self.order} | ({} if self.after is None else {"after": self.after})


Cursor = Annotated[ListQuery, Query()]


def page(data: Sequence[dict[str, Any]], *, has_more: bool) -> Response:
    return value_answer(
        {
            "object": "list",
            "data": data,
            "first_id": data[0]["id"] if data else None,
            "last_id": data[-1]["id"] if data else None,
            "has_more": has_more,
        }
    )


def page_within(entries: Sequence[dict[str, Any]], cursor: ListQuery) -> Response:
    """Returns a page of a list that is sorted oldest first. Raises ``ValidationFailed`` for an unknown cursor."""
    ordered = list(reversed(entries)) if cursor.newest_first else list(entries)
    if cursor.after is not None:
        index = next((index for index, entry in enumerate(ordered) if entry["id"] == cursor.after), None)
        if index is None:
            raise unknown_cursor()
        ordered = ordered[index + 1 :]
    return page(ordered[: cursor.limit], has_more=len(ordered) > cursor.limit)


def unknown_cursor() -> ValidationFailed:
    return refuse("after", "`after` must be the ID of an item in this list.", "invalid_value")
