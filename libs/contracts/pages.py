"""Pages of cursor-paginated lists."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from pydantic import BaseModel

COUNTED: Final = 10_000
"""Lists are counted exactly up to this number of items."""
Item = TypeVar("Item")
Other = TypeVar("Other")


class ListPage(BaseModel):
    """A page of a list. Pass ``next`` as ``after`` to get the next page.

    ``total`` is exact up to 10,000 items. For longer lists, it's 10,000 and ``total_is_exact`` is false.
    """

    total: int
    total_is_exact: bool = True
    has_more: bool
    next: str | None = None


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """A page of a list. ``next`` is the next page's cursor, or None on the last page."""

    items: list[Item]
    total: int
    total_is_exact: bool = True
    next: str | None = None

    @property
    def facts(self) -> dict[str, Any]:
        """Returns the fields that ``ListPage`` defines, with their values."""
        return {
            "total": self.total,
            "total_is_exact": self.total_is_exact,
            "has_more": self.next is not None,
            "next": self.next,
        }

    def map(self, change: Callable[[Item], Other]) -> "Page[Other]":
        return Page([change(item) for item in self.items], self.total, self.total_is_exact, self.next)
