"""Usage: what turns took."""

from __future__ import annotations

from collections.abc import Iterable

from aes_client.models import UsageReport
from aes_client.requests import Request, given, one
from aes_client.resource import R, Resource, operation


class Usage(Resource[R]):
    """The caller's usage, or the company's."""

    @operation
    def usage(
        self,
        *,
        begin: str | None = None,
        end: str | None = None,
        group_by: Iterable[str] = (),
        limit: int = 1000,
        offset: int = 0,
    ) -> Request[UsageReport]:
        """Returns sums over turns, told apart by ``day``, ``agent``, ``model``, ``user`` and ``key``, as asked for.

        ``begin`` and ``end`` are days (``2026-05-01``), which are both included, or timestamps; 30 days when left out.
        """
        query = given(**{"from": begin, "to": end}, group_by=",".join(group_by) or None, limit=limit, offset=offset)
        return Request("GET", "/usage/", one(UsageReport), query=query)
