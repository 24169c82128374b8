"""A company's usage: hourly totals of its ended turns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Protocol

from pydantic import ValidationError

from libs.contracts.decimals import decimal_text
from libs.contracts.replies import Attribution, Usage
from libs.contracts.resources.usage import UsageGroup, UsageItem, UsageTotals
from libs.contracts.timestamps import parse_time


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnUsage:
    """The usage of an ended turn.

    ``hour`` is the hour (UTC) in which the turn ended. ``cost`` is None if the model has no price.
    """

    hour: str
    user_id: str
    key_id: str
    agent_id: str
    model: str
    input_tokens: int
    output_tokens: int
    tool_calls: int
    seconds: float
    cost: str | None


def turn_usage(time: str, content: Mapping[str, Any]) -> TurnUsage:
    """Returns a turn's usage from the time and payload of its terminal event. Raises ``ValueError`` if it's invalid."""
    try:
        used = Usage.model_validate(content.get("usage"))
        whose = Attribution.model_validate(content)
    except ValidationError as problem:
        raise ValueError(f"number of invalid fields: {problem.error_count()}") from problem
    return TurnUsage(
        hour=parse_time(time).replace(minute=0, second=0, microsecond=0).isoformat(),
        user_id=whose.user_id,
        key_id=whose.key_id,
        agent_id=whose.agent_id or "",
        model=whose.model,
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        tool_calls=used.tool_calls,
        seconds=used.seconds,
        cost=used.cost,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageSpan:
    """A filter for usage from the hour ``begin`` to the hour before ``end``, optionally of one user or key."""

    company_id: str
    user_id: str | None = None
    key_id: str | None = None
    begin: datetime
    end: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageSum:
    """The usage of a group. ``cost`` excludes ``unpriced_turns``, whose models have no price."""

    group: Mapping[UsageGroup, str]
    turns: int
    input_tokens: int
    output_tokens: int
    tool_calls: int
    seconds: Decimal
    cost: Decimal
    unpriced_turns: int

    def item(self) -> UsageItem:
        """Converts the group to the API's format. Unknown values are null."""
        group = {
            name if name in ("day", "model") else f"{name}_id": value or None for name, value in self.group.items()
        }
        return UsageItem.model_validate({**group, **self._numbers})

    def total(self) -> UsageTotals:
        return UsageTotals.model_validate(self._numbers)

    @property
    def _numbers(self) -> dict[str, Any]:
        return {
            "turns": self.turns,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "tool_calls": self.tool_calls,
            "seconds": float(self.seconds),
            "cost": decimal_text(self.cost),
            "unpriced_turns": self.unpriced_turns,
        }


@dataclass(frozen=True, slots=True)
class UsagePage:
    """A page of groups. ``number`` and ``totals`` cover the groups of all pages."""

    sums: Sequence[UsageSum]
    number: int
    totals: UsageSum


class UsageStore(Protocol):
    """Reads usage."""

    async def usage(self, span: UsageSpan, groups: Sequence[UsageGroup], *, limit: int, offset: int) -> UsagePage:
        """Returns each group's totals, sorted by the grouping fields. Without ``groups``, returns a single total."""


class UsageRetention(Protocol):
    async def purge(self, before: datetime, *, limit: int) -> int:
        """Deletes up to ``limit`` rows of hours before ``before``. Returns their number."""
