"""Creates, changes and deletes budgets."""

from typing import Any

from libs.contracts.errors import Conflict
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
from services.runtime.adapters.postgres.budgets import PostgresBudgetWriter
from services.runtime.domain.budgets import BudgetState
from services.runtime.domain.sessions import require


class Budgets:
    async def create(self, transaction: Transaction, command: CreateBudget, context: CommandContext) -> None:
        """Creates a budget. Raises Conflict if the company already has the maximum number."""
        writer, company_id = PostgresBudgetWriter(transaction), context.identity.company_id
        if await writer.lock_and_count(company_id) >= MAX_BUDGETS:
            raise Conflict(f"The company has {MAX_BUDGETS} budgets, which is the maximum. Delete one first.")
        budget = await writer.add(context.command_id, company_id, command)
        transaction.emit(BudgetCreated(budget=budget.public()), subject=budget.id, owner_id=budget.owner_id)
        _tell_if_exceeded(transaction, budget, was_exceeded=False)

    async def update(self, transaction: Transaction, command: UpdateBudget, context: CommandContext) -> None:
        writer = PostgresBudgetWriter(transaction)
        before = require("budget", await writer.lock(context.identity.company_id, command.budget_id))
        changes: dict[str, Any] = command.changes.model_dump(exclude_unset=True)
        if "cost" in changes:
            changes["tokens"] = None
        elif "tokens" in changes:
            changes["cost"] = None
        after = await writer.change(before.id, changes)
        transaction.emit(BudgetUpdated(budget=after.public()), subject=after.id, owner_id=after.owner_id)
        _tell_if_exceeded(transaction, after, was_exceeded=before.is_exceeded)

    async def delete(self, transaction: Transaction, command: DeleteBudget, context: CommandContext) -> None:
        writer = PostgresBudgetWriter(transaction)
        budget = require("budget", await writer.lock(context.identity.company_id, command.budget_id))
        await writer.remove(budget.id)
        transaction.emit(BudgetDeleted(budget_id=budget.id), subject=budget.id, owner_id=budget.owner_id)


def _tell_if_exceeded(transaction: Transaction, budget: BudgetState, *, was_exceeded: bool) -> None:
    if budget.is_exceeded and not was_exceeded:
        transaction.emit(BudgetExhausted(budget=budget.public()), subject=budget.id, owner_id=budget.owner_id)
