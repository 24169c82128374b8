"""Usage: what turns took, and budgets: limits of what they may take."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from aes_client.flows import Emitting, Flow
from aes_client.models import Budget, UsageItem, UsageReport
from aes_client.requests import Request, given, nothing, one, path_of
from aes_client.resource import R, Resource, iteration, operation

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from aes_client import params

_PAGE = 1000


class Usage(Resource[R]):
    """The caller's usage, or the company's."""

    @operation
    def usage(
        self,
        *,
        begin: str | None = None,
        end: str | None = None,
        group_by: Iterable[str] = (),
    ) -> Flow[UsageReport]:
        """Returns sums over turns, told apart by ``day``, ``agent``, ``model``, ``user`` and ``key``, as asked for.

        ``begin`` and ``end`` are days (``2026-05-01``), which are both included, or timestamps; 30 days when left out.
        """
        query = given(**{"from": begin, "to": end}, group_by=",".join(group_by) or None, limit=_PAGE)
        items: list[UsageItem] = []
        while True:
            report = yield from self._send(Request("GET", "/usage/", one(UsageReport), query=query))
            items += report.usage
            if not (report.has_more and report.usage):
                return report.model_copy(update={"usage": items})
            query["offset"] = len(items)


class Budgets(Resource[R]):
    """``client.budgets``. A turn beyond a budget is refused with ``BudgetExceededError``."""

    @operation
    def create(self, **budget: Unpack[params.CreateBudgetBody]) -> Request[Budget]:
        """Limits the ``cost`` or the ``tokens`` of a ``period``, of the company, a user or a key."""
        return Request("POST", "/budgets/", one(Budget), body=dict(budget))

    @operation
    def get(self, budget_id: str) -> Request[Budget]:
        """Returns a budget with its use in the present period."""
        return Request("GET", path_of("/budgets/{budget}/", budget=budget_id), one(Budget))

    @iteration
    def list(self) -> Emitting[Budget]:
        """Yields budgets, newest first."""
        yield from self._pages("/budgets/", "budgets", Budget, {})

    @operation
    def update(self, budget_id: str, **changes: Unpack[params.UpdateBudgetBody]) -> Request[Budget]:
        """Changes what is given, for turns that come from now on."""
        return Request("PATCH", path_of("/budgets/{budget}/", budget=budget_id), one(Budget), body=dict(changes))

    @operation
    def delete(self, budget_id: str) -> Request[None]:
        return Request("DELETE", path_of("/budgets/{budget}/", budget=budget_id), nothing)
