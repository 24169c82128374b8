"""Creates budgets, starting with the current period's usage."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from libs.contracts.errors import invalid_field
from libs.contracts.identifiers import is_id
from libs.contracts.identity import Identity, Scope
from libs.contracts.resources.budgets import BudgetUse, CreateBudget, CreateBudgetBody
from libs.contracts.resources.usage import UsageReport
from libs.contracts.timestamps import format_time
from libs.service_defaults import UpstreamClient
from services.gateway.domain.ports import KeyStore


@dataclass(frozen=True, slots=True)
class Budgets:
    keys: KeyStore
    upstreams: UpstreamClient
    now: Callable[[], datetime]

    async def new(self, company_id: str, body: CreateBudgetBody) -> CreateBudget:
        """Returns the command that creates a budget. Raises ``ValidationFailed`` for an unknown user or key.

        Raises ``ServiceUnavailable`` if the usage of the current day or month can't be read.
        """
        owner_id = await self._owner(company_id, body)
        if body.period == "total":
            return CreateBudget(budget=body, owner_id=owner_id)
        now = self.now()
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        begin = midnight if body.period == "day" else midnight.replace(day=1)
        used = await self._used(company_id, body, begin, now)
        return CreateBudget(budget=body, used=used, period_started_at=format_time(begin), owner_id=owner_id)

    async def _owner(self, company_id: str, body: CreateBudgetBody) -> str:
        """Returns the ID of the user who owns the budget or its key, or an empty string for a company's budget."""
        if body.key_id is not None:
            key = await self.keys.key(company_id, body.key_id) if is_id(body.key_id) else None
            if key is None:
                raise invalid_field(["key_id"], "the company doesn't have this key", kind="not_found")
            return key.user_id
        if body.user_id is not None:
            if not is_id(body.user_id) or not await self.keys.has_user(company_id, body.user_id):
                raise invalid_field(["user_id"], "the company doesn't have this user", kind="not_found")
            return body.user_id
        return ""

    async def _used(self, company_id: str, body: CreateBudgetBody, begin: datetime, now: datetime) -> BudgetUse:
        whose = {"user_id": body.user_id, "key_id": body.key_id}
        params = {
            "begin": format_time(begin),
            "end": format_time(now + timedelta(hours=1)),
            "limit": 1,
            **{name: value for name, value in whose.items() if value is not None},
        }
        # Reads all users' usage: creating a budget doesn't require the right to see it.
        reader = Identity(company_id=company_id, user_id="gateway", key_id="gateway", scopes={Scope.COMPANY_READ})
        totals = (await self.upstreams.read(UsageReport, "timeline", "/internal/usage", reader, params)).totals
        return BudgetUse(cost=totals.cost, tokens=totals.input_tokens + totals.output_tokens)
