"""Serves ``/budgets/…``: limits on usage."""

from typing import Annotated

from fastapi import Depends, Security
from starlette.responses import Response

from libs.contracts.identifiers import id_of
from libs.contracts.identity import Scope
from libs.contracts.resources.budgets import (
    Budget,
    BudgetPage,
    CreateBudget,
    CreateBudgetBody,
    DeleteBudget,
    UpdateBudget,
    UpdateBudgetBody,
)
from services.gateway.domain.accounts import Principal
from services.gateway.entrypoints.door.answers import rendered
from services.gateway.entrypoints.door.application import Submit, Upstream
from services.gateway.entrypoints.door.bodies import ParsedBody
from services.gateway.entrypoints.door.callers import by_api_key
from services.gateway.entrypoints.door.queries import Page
from services.gateway.entrypoints.door.routes import answer, errors, public_router
from services.gateway.entrypoints.rest.resources import ResourcesDep

router = public_router("/budgets", "Usage")
Caller = Annotated[Principal, Security(by_api_key, scopes=[Scope.BUDGETS_WRITE])]
NewBudget = Annotated[CreateBudgetBody, Depends(ParsedBody(CreateBudgetBody))]
Changes = Annotated[UpdateBudgetBody, Depends(ParsedBody(UpdateBudgetBody))]


@router.get(
    "/",
    operation_id="budgets.list",
    summary="List budgets",
    responses={200: answer("The company's budgets, newest first.", BudgetPage)},
)
async def list_budgets(caller: Caller, page: Page, upstream: Upstream) -> Response:
    return await upstream.get(caller, "runtime", "/internal/budgets", page.params())


@router.post(
    "/",
    operation_id="budgets.create",
    summary="Create a budget",
    description=(
        "Limits the usage of the company, a user or a key, per day, per month (UTC) or in"
        " total. Once the budget is used up, new turns return 429 `budget_exceeded`. Turns accepted earlier continue,"
        " and their usage counts. A daily or monthly budget starts with the usage of the current day or month."
    ),
    status_code=201,
    responses={201: answer("The new budget.", Budget, location=True), **errors(409)},
)
async def create_budget(caller: Caller, body: NewBudget, submit: Submit, resources: ResourcesDep) -> Response:
    made = await submit.new(CreateBudget, lambda _: resources.budgets.new(caller.identity.company_id, body))
    return rendered(made, "budget", location="/budgets/{id}/")


@router.get(
    "/{id}/",
    operation_id="budgets.get",
    summary="Get a budget",
    responses={200: answer("The budget.", Budget), **errors(404)},
)
async def get_budget(id: str, caller: Caller, upstream: Upstream) -> Response:
    return await upstream.get(caller, "runtime", f"/internal/budgets/{id_of(id, 'budget')}")


@router.patch(
    "/{id}/",
    operation_id="budgets.update",
    summary="Update a budget",
    description="The change applies to new turns. The current period's usage still counts.",
    responses={200: answer("The updated budget.", Budget), **errors(404)},
)
async def update_budget(id: str, _: Caller, body: Changes, submit: Submit) -> Response:
    return rendered(await submit(UpdateBudget(budget_id=id_of(id, "budget"), changes=body)), "budget")


@router.delete(
    "/{id}/",
    operation_id="budgets.delete",
    summary="Delete a budget",
    status_code=204,
    responses={204: answer("The budget was deleted."), **errors(404)},
)
async def delete_budget(id: str, _: Caller, submit: Submit) -> Response:
    return rendered(await submit(DeleteBudget(budget_id=id_of(id, "budget"))))
