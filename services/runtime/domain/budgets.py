"""Budgets, which limit the tokens or cost of turns per period."""

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

from libs.contracts.decimals import decimal_text
from libs.contracts.errors import BudgetExceeded, ErrorDetail, ExceededBudget
from libs.contracts.identity import Identity
from libs.contracts.messages import MessageContext
from libs.contracts.replies import Usage
from libs.contracts.resources.budgets import Budget, BudgetUse
from libs.contracts.timestamps import format_time

_PERCENT: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetState:
    """A budget and its usage in the current period. The limit is either ``cost`` or ``tokens``.

    ``renews_in`` is the time in seconds until the next period, or None if the period doesn't end.
    """

    id: str
    company_id: str
    owner_id: str
    description: str
    user_id: str | None
    key_id: str | None
    period: str
    cost: Decimal | None
    tokens: int | None
    warning_percent: int | None
    used_cost: Decimal
    used_tokens: int
    period_started_at: datetime
    renews_at: datetime | None
    renews_in: float | None
    created_at: datetime
    updated_at: datetime

    @property
    def limit(self) -> Decimal:
        return self.cost if self.cost is not None else Decimal(self.tokens or 0)

    @property
    def used(self) -> Decimal:
        """The usage in the limit's unit."""
        return self.used_cost if self.cost is not None else Decimal(self.used_tokens)

    @property
    def is_exceeded(self) -> bool:
        return self.used >= self.limit

    @property
    def is_warning(self) -> bool:
        """Whether the usage has reached the warning threshold, but not the limit."""
        return (
            self.warning_percent is not None
            and not self.is_exceeded
            and self.used * _PERCENT >= self.limit * self.warning_percent
        )

    def applies_to(self, caller: Identity) -> bool:
        return (
            caller.company_id == self.company_id
            and self.user_id in (None, caller.user_id)
            and self.key_id in (None, caller.key_id)
        )

    def error(self) -> BudgetExceeded:
        """Returns the error for a turn that this exhausted budget blocks."""
        limit: str | int = decimal_text(self.limit) if self.tokens is None else self.tokens
        used: str | int = decimal_text(self.used_cost) if self.tokens is None else self.used_tokens
        whose = "key" if self.key_id is not None else "user" if self.user_id is not None else "company"
        unit = "cost" if self.cost is not None else "tokens"
        until = "" if self.renews_at is None else f" It renews at {format_time(self.renews_at)}."
        message = f"One of the {whose}'s budgets is used up ({unit}: {used} of {limit}).{until}"
        facts = ExceededBudget(
            budget_id=self.id,
            unit=unit,
            limit=limit,
            used=used,
            renews_at=None if self.renews_at is None else format_time(self.renews_at),
        )
        detail = ErrorDetail(loc=[], type="budget_exceeded", message=message, budget=facts)
        retry_after = None if self.renews_in is None else max(1, int(self.renews_in) + 1)
        return BudgetExceeded(message, details=[detail], retry_after=retry_after)

    def public(self) -> Budget:
        amounts = {
            "cost": None if self.cost is None else decimal_text(self.cost),
            "used": BudgetUse(cost=decimal_text(self.used_cost), tokens=self.used_tokens),
            "exceeded": self.is_exceeded,
        }
        return Budget.model_validate({**asdict(self), **amounts})


@dataclass(frozen=True, slots=True)
class Charge:
    """The usage of an ended turn."""

    company_id: str
    user_id: str
    key_id: str
    correlation_id: str
    tokens: int
    cost: Decimal


def charge_of(usage: Usage, user_id: str, key_id: str, message_context: MessageContext) -> Charge:
    return Charge(
        company_id=message_context.company_id,
        user_id=user_id,
        key_id=key_id,
        correlation_id=message_context.correlation_id,
        tokens=usage.input_tokens + usage.output_tokens,
        cost=Decimal(usage.cost or 0),
    )


def renewal(period: str, started_at: datetime) -> datetime | None:
    """Returns the end of a period that starts at ``started_at``, or None if the period doesn't end."""
    if period == "day":
        return started_at + timedelta(days=1)
    if period == "month":
        return started_at.replace(year=started_at.year + started_at.month // 12, month=started_at.month % 12 + 1)
    return None
