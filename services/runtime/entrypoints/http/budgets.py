"""Budgets of a company, in the form of the public API."""

from fastapi import APIRouter

from libs.contracts.api.budgets import Budget, BudgetPage
from libs.contracts.errors import NotFound
from libs.service_defaults import Caller, Cursor, Limit, Offset
from services.runtime.domain.budgets import BudgetReads


def budgets_router(reads: BudgetReads) -> APIRouter:
    router = APIRouter(prefix="/internal/budgets")

    @router.get("")
    async def list_budgets(who: Caller, limit: Limit = 50, offset: Offset = 0, cursor: Cursor = None) -> BudgetPage:
        return await reads.budgets(who.company_id, limit=limit, offset=offset, cursor=cursor)

    @router.get("/{budget_id}")
    async def get_budget(budget_id: str, who: Caller) -> Budget:
        found = await reads.budget(who.company_id, budget_id)
        if found is None:
            raise NotFound("there is no such budget")
        return found

    return router
