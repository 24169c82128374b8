"""A store of usage in memory."""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from libs.contracts.resources.usage import UsageGroup
from services.timeline.domain.usage import UsagePage, UsageSpan, UsageSum

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
