"""Usage reports: totals across finished turns."""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

from libs.contracts.timestamps import Timestamp


class UsageGroup(StrEnum):
    """A dimension that usage can be grouped by."""

    DAY = "day"
    AGENT = "agent"
    MODEL = "model"
    USER = "user"
    KEY = "key"


class UsageTotals(BaseModel):
    """Usage totals across turns. ``cost`` is in the currency of the prices and excludes ``unpriced_turns``."""

    turns: int
    input_tokens: int
    output_tokens: int
    tool_calls: int
    seconds: float
    cost: str = Field(description="An exact decimal.", examples=["12.3456"])
    unpriced_turns: int


class UsageItem(UsageTotals):
    """The totals of a group, identified by the requested grouping fields.

    A field is ``null`` if the turns have no value for it.
    """

    day: str | None = Field(default=None, examples=["2026-05-01"])
    agent_id: str | None = None
    model: str | None = None
    user_id: str | None = None
    key_id: str | None = None


class UsageReport(BaseModel):
    """The usage between ``from``, inclusive, and ``to``, exclusive. ``total`` is the number of groups."""

    model_config = ConfigDict(populate_by_name=True)

    begin: Timestamp = Field(alias="from")
    end: Timestamp = Field(alias="to")
    group_by: list[str]
    usage: list[UsageItem]
    totals: UsageTotals
    total: int
    has_more: bool
