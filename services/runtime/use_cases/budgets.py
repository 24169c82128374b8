"""Creates, changes and deletes budgets."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from libs.contracts.errors import Conflict, NotFound
from libs.contracts.messages import CommandContext
from libs.contracts.resources.budgets import (
    MAX_BUDGETS,
    BudgetCreated,
    BudgetDeleted,
    BudgetExhausted,
    BudgetUpdated,
    CreateBudget,
    DeleteBudget,
    UpdateBudget,
)
from libs.eventing import Transaction
from services.runtime.domain.budgets import BudgetState, BudgetWriter, NewBudget

OpenBudgets = Callable[[Transaction], BudgetWriter]


@dataclass(frozen=True, slots=True)
class Budgets:
    open_budgets: OpenBudgets

    async def create(self, transaction: Transaction, command: CreateBudget, context: CommandContext) -> None:
        """Creates a budget. Raises Conflict if the company already has the maximum number."""
        writer, company_id = self.open_budgets(transaction), context.identity.company_id
        if await writer.lock_and_count(company_id) >= MAX_BUDGETS:
            raise Conflict(f"The company has {MAX_BUDGETS} budgets, which is the maximum. Delete one first.")
        budget = await writer.add(
            NewBudget(
                id=context.command_id,
                company_id=company_id,
                owner_id=command.owner_id,
                body=command.budget,
                used=command.used,
                period_started_at=command.period_started_at,
            )
        )
        transaction.emit(BudgetCreated(budget=budget.public()), subject=budget.id, owner_id=budget.owner_id)
        _tell_if_exceeded(transaction, budget, was_exceeded=False)

    async def update(self, transaction: Transaction, command: UpdateBudget, context: CommandContext) -> None:
        writer = self.open_budgets(transaction)
        before = _found(await writer.lock(context.identity.company_id, command.budget_id))
        changes: dict[str, Any] = command.changes.model_dump(exclude_unset=True)
        if "cost" in changes:
            changes["tokens"] = None
        elif "tokens" in changes:
            changes["cost"] = None
        after = await writer.change(before.id, changes)
        transaction.emit(BudgetUpdated(budget=after.public()), subject=after.id, owner_id=after.owner_id)
        _tell_if_exceeded(transaction, after, was_exceeded=before.is_exceeded)

    async def delete(self, transaction: Transaction, command: DeleteBudget, context: CommandContext) -> None:
        writer = self.open_budgets(transaction)
        budget = _found(await writer.lock(context.identity.company_id, command.budget_id))
        await writer.remove(budget.id)
        transaction.emit(BudgetDeleted(budget_id=budget.id), subject=budget.id, owner_id=budget.owner_id)


def _tell_if_exceeded(transaction: Transaction, budget: BudgetState, *, was_exceeded: bool) -> None:
    if budget.is_exceeded and not was_exceeded:
        transaction.emit(BudgetExhausted(budget=budget.public()), subject=budget.id, owner_id=budget.owner_id)


def _found(budget: BudgetState | None) -> BudgetState:
    if budget is None:
        raise NotFound("There is no budget with this ID.")
    return budget
