"""Usage of the gateway's tests: turns' usage, and a store in memory."""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from libs.contracts.resources.usage import UsageGroup
from services.timeline.domain.usage import TurnUsage, UsagePage, UsageSpan, UsageSum

NOTHING = UsageSum(
    group={},
    turns=0,
    input_tokens=0,
    output_tokens=0,
    tool_calls=0,
    seconds=Decimal(0),
    cost=Decimal(0),
    unpriced_turns=0,
)


def turn_usage(**fields: Any) -> TurnUsage:
    made = {
        "hour": "2030-01-01T08:00:00+00:00",
        "user_id": "ada",
        "key_id": "key",
        "agent_id": "agent",
        "model": "builtin:extractive",
        "input_tokens": 10,
        "output_tokens": 2,
        "tool_calls": 1,
        "seconds": 0.25,
        "cost": "0.000012",
    }
    return TurnUsage(**{**made, **fields})


class FakeUsage:
    """A ``UsageStore`` that answers with ``sums``, and notes what it was asked."""

    def __init__(self) -> None:
        self.sums: list[UsageSum] = []
        self.totals: UsageSum | None = None
        self.asked: list[tuple[UsageSpan, tuple[UsageGroup, ...]]] = []

    async def usage(self, span: UsageSpan, groups: Sequence[UsageGroup], *, limit: int, offset: int) -> UsagePage:
        self.asked.append((span, tuple(groups)))
        totals = self.totals or replace(NOTHING, turns=sum(each.turns for each in self.sums))
        return UsagePage(self.sums[offset : offset + limit], len(self.sums), totals)
