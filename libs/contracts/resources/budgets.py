"""Budgets, which limit the tokens or cost of turns in a period."""

from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, Field, model_validator

from libs.contracts.decimals import decimal_text
from libs.contracts.messages import BodyCommand, Command, Event
from libs.contracts.models import StrictModel
from libs.contracts.pages import ListPage
from libs.contracts.timestamps import Timestamp

EXAMPLE_ENVELOPE: Final = {"owner_id": ""}

MAX_BUDGETS: Final = 100
"""The maximum number of budgets per company."""
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
        raise ValueError(f"must be above 0 and at most {_HIGHEST:,}, and have at most {_PLACES} decimal places")
    return decimal_text(amount)


Amount = Annotated[str, Field(min_length=1, max_length=30), AfterValidator(_amount)]
Tokens = Annotated[int, Field(ge=1, le=10**15)]
Percent = Annotated[int, Field(ge=1, le=99)]
Description = Annotated[str, Field(max_length=1_000)]


class CreateBudgetBody(StrictModel):
    """The body of ``POST /budgets/``: a budget for the company, or for one of its users or keys.

    Set either ``cost``, an exact decimal, or ``tokens``, which counts input and output together. Days and months are in
    UTC. An event is published when usage reaches ``warning_percent``; ``null`` disables this event.
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "the company's monthly budget": {"period": "month", "cost": "250", "description": "All agents"},
        "a key's daily budget, in tokens": {
            "period": "day",
            "tokens": 2_000_000,
            "key_id": "01980f4f-6f42-727a-9394-8192a3b4c5da",
        },
    }

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
            raise ValueError("set either `cost` or `tokens`")
        if self.user_id is not None and self.key_id is not None:
            raise ValueError("set user_id or key_id, not both")
        return self


class UpdateBudgetBody(StrictModel):
    """The body of ``PATCH /budgets/{id}/``. Omitted fields keep their values.

    Setting ``cost`` clears ``tokens``, and vice versa.
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {"a higher limit": {"cost": "400", "warning_percent": 90}}

    description: Description | None = None
    cost: Amount | None = None
    tokens: Tokens | None = None
    warning_percent: Percent | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.cost is not None and self.tokens is not None:
            raise ValueError("set either `cost` or `tokens`")
        if {"description", "cost", "tokens"} & {name for name in self.model_fields_set if getattr(self, name) is None}:
            raise ValueError("only warning_percent may be null")
        if not self.model_fields_set:
            raise ValueError("set at least one field")
        return self


class BudgetUse(BaseModel):
    """The usage that counts toward a budget in its current period."""

    cost: str = "0"
    tokens: int = 0


_EXAMPLE: Final[dict[str, Any]] = {
    "id": "01980f60-1111-7a2b-8c3d-4e5f6a7b8c09",
    "description": "All agents",
    "period": "month",
    "cost": "250",
    "warning_percent": 80,
    "used": {"cost": "200.1", "tokens": 131_000_000},
    "exceeded": False,
    "period_started_at": "2026-05-01T00:00:00.000000Z",
    "renews_at": "2026-06-01T00:00:00.000000Z",
    "created_at": "2026-05-04T08:16:20.000000Z",
    "updated_at": "2026-05-04T08:16:20.000000Z",
}


class Budget(BaseModel):
    """A budget with its usage in the current period. ``renews_at`` is ``null`` if ``period`` is ``total``.

    A budget without a ``user_id`` or ``key_id`` applies to the whole company.
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "the company's budget": _EXAMPLE,
        "used up": {**_EXAMPLE, "used": {"cost": "250.0121", "tokens": 163_000_000}, "exceeded": True},
    }

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
    """A page of budgets, newest first."""

    budgets: list[Budget]


class BudgetCreated(Event, type="aes.runtime.budget.created.v1"):
    """A budget was created."""

    budget: Budget


class BudgetUpdated(Event, type="aes.runtime.budget.updated.v1"):
    """A budget was updated."""

    budget: Budget


class BudgetDeleted(Event, type="aes.runtime.budget.deleted.v1"):
    """A budget was deleted."""

    budget_id: str


class BudgetWarning(Event, type="aes.runtime.budget.warning.v1"):
    """The usage of a budget reached its ``warning_percent``."""

    budget: Budget


class BudgetExhausted(Event, type="aes.runtime.budget.exceeded.v1"):
    """A turn used up the budget. New turns are rejected until the budget renews or you change it."""

    EXAMPLES: ClassVar[dict[str, Any]] = {"the company's budget": {"budget": Budget.EXAMPLES["used up"]}}

    budget: Budget


class CreateBudget(Command, type="aes.runtime.create_budget.v1", outcomes=(BudgetCreated,)):
    """Create a budget for a company, a user or a key. The budget's ID is the command's ID.

    ``used`` is the usage so far in the period that started at ``period_started_at``. Later periods ignore ``used``.
    ``owner_id`` is the budget's user or the owner of its key; it's empty for the company's budgets.
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "the company's monthly budget": {
            "used": {"cost": "12.3456", "tokens": 8_120_334},
            "period_started_at": "2026-05-01T00:00:00.000000Z",
        }
    }

    budget: CreateBudgetBody
    used: BudgetUse = BudgetUse()
    period_started_at: str | None = None
    owner_id: str = ""


class UpdateBudget(BodyCommand, type="aes.runtime.update_budget.v1", outcomes=(BudgetUpdated,), subject="budget_id"):
    """Update a budget. Omitted fields of ``changes`` keep their values."""

    budget_id: str
    changes: UpdateBudgetBody


class DeleteBudget(Command, type="aes.runtime.delete_budget.v1", outcomes=(BudgetDeleted,), subject="budget_id"):
    """Delete a budget."""

    budget_id: str
