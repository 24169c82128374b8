"""Pages of lists that fakes keep in memory."""

from collections.abc import Sequence
from typing import TypeVar

from libs.contracts.pages import Page

Item = TypeVar("Item")


def page_within(items: Sequence[Item], *, limit: int, offset: int, cursor: str | None = None) -> Page[Item]:
    """A page whose cursor is the place where the next one begins."""
    begin = int(cursor or 0) + offset
    end = begin + limit
    return Page(list(items[begin:end]), len(items), next=str(end) if end < len(items) else None)
