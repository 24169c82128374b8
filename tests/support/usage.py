"""A store of usage in memory."""

from collections.abc import Sequence

from libs.contracts.resources.usage import UsageGroup, UsageItem
from services.timeline.domain.usage import UsagePage, UsageSpan

NOTHING = UsageItem(turns=0, input_tokens=0, output_tokens=0, tool_calls=0, seconds=0, cost="0", unpriced_turns=0)


class FakeUsage:
    """A ``UsageStore`` that answers with ``items``, and notes what it was asked."""

    def __init__(self) -> None:
        self.items: list[UsageItem] = []
        self.totals: UsageItem | None = None
        self.asked: list[tuple[UsageSpan, tuple[UsageGroup, ...]]] = []

    async def usage(self, span: UsageSpan, groups: Sequence[UsageGroup], *, limit: int, offset: int) -> UsagePage:
        self.asked.append((span, tuple(groups)))
        totals = self.totals or NOTHING.model_copy(update={"turns": sum(each.turns for each in self.items)})
        return UsagePage(self.items[offset : offset + limit], len(self.items), totals)
