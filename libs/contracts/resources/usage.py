"""Usage: what ended turns took, summed up."""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

from libs.contracts.timestamps import Timestamp


class UsageGroup(StrEnum):
    """The dimension that usage is grouped by."""

    DAY = "day"
    AGENT = "agent"
    MODEL = "model"
    USER = "user"
    KEY = "key"


class UsageTotals(BaseModel):
    """Sums over turns. ``cost`` in the currency of the prices, without the ``unpriced_turns``."""

    turns: int
    input_tokens: int
    output_tokens: int
    tool_calls: int
    seconds: float
    cost: str = Field(description="An exact decimal.", examples=["12.3456"])
    unpriced_turns: int


class UsageItem(UsageTotals):
    """A group, named by the fields that were asked for; null where a turn has none."""

    day: str | None = Field(default=None, examples=["2026-05-01"])
    agent_id: str | None = None
    model: str | None = None
    user_id: str | None = None
    key_id: str | None = None


class UsageReport(BaseModel):
    """Usage ``from`` one time ``to`` before another; ``total`` counts all groups."""

    model_config = ConfigDict(populate_by_name=True)

    begin: Timestamp = Field(alias="from")
    end: Timestamp = Field(alias="to")
    group_by: list[str]
    usage: list[UsageItem]
    totals: UsageTotals
    total: int
    has_more: bool
