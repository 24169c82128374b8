"""Budgets: limits on the tokens or the cost of turns in a period."""

from decimal import Decimal, InvalidOperation
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, Field, model_validator

from libs.contracts.api.agents import StrictModel
from libs.contracts.api.pages import ListPage
from libs.contracts.decimals import decimal_text
from libs.contracts.timestamps import Timestamp

MAX_BUDGETS: Final = 100
"""Budgets of a company."""
DEFAULT_WARNING: Final = 80
_HIGHEST: Final = Decimal(10) ** 12
_PLACES: Final = 8
BudgetPeriod = Literal["day", "month", "total"]


def _amount(text: str) -> str:
    try:
        amount = Decimal(text)
    except InvalidOperation:
        raise ValueError("must be a decimal, such as 12.50") from None
    exponent = amount.as_tuple().exponent
    if not isinstance(exponent, int) or not 0 < amount <= _HIGHEST or -exponent > _PLACES:
        raise ValueError(f"must be above 0, at most {_HIGHEST:,}, with up to {_PLACES} places")
    return decimal_text(amount)


Amount = Annotated[str, Field(min_length=1, max_length=30), AfterValidator(_amount)]
Tokens = Annotated[int, Field(ge=1, le=10**15)]
Percent = Annotated[int, Field(ge=1, le=99)]
Description = Annotated[str, Field(max_length=1_000)]


class CreateBudgetBody(StrictModel):
    """``POST /budgets/``: of the company, or of one of its users or keys.

    Either ``cost``, an exact decimal, or ``tokens``, input and output together. A ``day`` and a ``month`` are those of
    UTC. At ``warning_percent`` of it there is an event, null for none.
    """

    description: Description = ""
    user_id: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    key_id: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    period: BudgetPeriod
    cost: Amount | None = None
    tokens: Tokens | None = None
    warning_percent: Percent | None = DEFAULT_WARNING

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.cost is None) == (self.tokens is None):
            raise ValueError("a budget has either cost or tokens")
        if self.user_id is not None and self.key_id is not None:
            raise ValueError("a budget is of a user or of a key, not of both")
        return self


class UpdateBudgetBody(StrictModel):
    """``PATCH /budgets/{id}/``. What is left out stays; ``cost`` and ``tokens`` take each other's place."""

    description: Description | None = None
    cost: Amount | None = None
    tokens: Tokens | None = None
    warning_percent: Percent | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.cost is not None and self.tokens is not None:
            raise ValueError("a budget has either cost or tokens")
        if {"description", "cost", "tokens"} & {name for name in self.model_fields_set if getattr(self, name) is None}:
            raise ValueError("only warning_percent may be null")
        if not self.model_fields_set:
            raise ValueError("nothing is to be changed")
        return self


class BudgetUse(BaseModel):
    """Use of a budget in its period, by both measures."""

    cost: str = "0"
    tokens: int = 0


class Budget(BaseModel):
    """A budget in its present period. ``renews_at`` is null for ``total``; without user and key it is the company's."""

    id: str
    description: str
    user_id: str | None = None
    key_id: str | None = None
    period: BudgetPeriod
    cost: str | None = None
    tokens: int | None = None
    warning_percent: int | None = None
    used: BudgetUse
    exceeded: bool
    period_started_at: Timestamp
    renews_at: Timestamp | None = None
    created_at: Timestamp
    updated_at: Timestamp


class BudgetPage(ListPage):
    """Budgets, newest first."""

    budgets: list[Budget]
