"""Commands and reads of budgets."""

from fastapi import APIRouter, FastAPI

from libs.contracts.resources.budgets import Budget, BudgetPage, CreateBudget, DeleteBudget, UpdateBudget
from libs.eventing import CommandRouter
from libs.service_defaults import Caller, Cursor, Limit, Offset
from services.runtime.adapters.postgres.budgets import PostgresBudgetReads
from services.runtime.domain.sessions import require
from services.runtime.use_cases.budgets import Budgets


def serve_budgets(commands: CommandRouter, http: FastAPI, reads: PostgresBudgetReads) -> None:
    budgets = Budgets()
    commands.handle(CreateBudget, budgets.create)
    commands.handle(UpdateBudget, budgets.update)
    commands.handle(DeleteBudget, budgets.delete)
    router = APIRouter(prefix="/internal/budgets")

    @router.get("")
    async def list_budgets(who: Caller, limit: Limit = 50, offset: Offset = 0, cursor: Cursor = None) -> BudgetPage:
        return await reads.budgets(who.company_id, limit=limit, offset=offset, cursor=cursor)

    @router.get("/{budget_id}")
    async def get_budget(budget_id: str, who: Caller) -> Budget:
        return require("budget", await reads.budget(who.company_id, budget_id))

    http.include_router(router)
