"""Commands and reads of budgets."""

from fastapi import APIRouter, FastAPI

from libs.contracts.errors import NotFound
from libs.contracts.resources.budgets import Budget, BudgetPage, CreateBudget, DeleteBudget, UpdateBudget
from libs.eventing import CommandRouter
from libs.service_defaults import Caller, Cursor, Limit, Offset
from services.runtime.domain.budgets import BudgetReads
from services.runtime.use_cases.budgets import Budgets


def serve_budgets(commands: CommandRouter, http: FastAPI, budgets: Budgets, reads: BudgetReads) -> None:
    commands.handle(CreateBudget, budgets.create)
    commands.handle(UpdateBudget, budgets.update)
    commands.handle(DeleteBudget, budgets.delete)
    router = APIRouter(prefix="/internal/budgets")

    @router.get("")
    async def list_budgets(who: Caller, limit: Limit = 50, offset: Offset = 0, cursor: Cursor = None) -> BudgetPage:
        return await reads.budgets(who.company_id, limit=limit, offset=offset, cursor=cursor)

    @router.get("/{budget_id}")
    async def get_budget(budget_id: str, who: Caller) -> Budget:
        budget = await reads.budget(who.company_id, budget_id)
        if budget is None:
            raise NotFound("There is no budget with this ID.")
        return budget

    http.include_router(router)
