"""A company's usage: hourly totals of its ended turns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from pydantic import ValidationError

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


@dataclass(frozen=True, slots=True)
class UsagePage:
    """A page of groups. ``number`` and ``totals`` cover the groups of all pages."""

    items: Sequence[UsageItem]
    number: int
    totals: UsageTotals


class UsageStore(Protocol):
    """Reads usage."""

    async def usage(self, span: UsageSpan, groups: Sequence[UsageGroup], *, limit: int, offset: int) -> UsagePage:
        """Returns each group's totals, sorted by the grouping fields. Without ``groups``, returns a single total."""
