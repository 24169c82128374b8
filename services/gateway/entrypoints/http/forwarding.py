"""Reads, passed on to the services that own the answer."""

from collections.abc import Sequence
from typing import Any

from libs.contracts.errors import NotFound
from libs.contracts.identifiers import is_id
from libs.service_defaults.upstream_answers import checked
from services.gateway.domain.ports import Upstreams
from services.gateway.entrypoints.http.messages import Reply, Request
from services.gateway.entrypoints.http.operations import QueryParameter
from services.gateway.entrypoints.http.validation import page_of, query_values


class Forwarding:
    """The upstream's bytes are the answer's; what it refuses is raised."""

    def __init__(self, upstreams: Upstreams) -> None:
        self._upstreams = upstreams

    async def get(self, request: Request, upstream: str, path: str, filters: Sequence[QueryParameter] = ()) -> Reply:
        """``filters``: the parameters of the query that the upstream is given."""
        given = query_values(request.query) if filters else {}
        chosen = {each.name: given[each.name] for each in filters if each.name in given}
        return await self._ask("GET", request, upstream, path, params=chosen or None)

    async def page(self, request: Request, upstream: str, path: str, filters: Sequence[QueryParameter] = ()) -> Reply:
        """Like ``get``, with the ``limit`` and ``offset`` of the query and its filters."""
        limit, offset = page_of(request.query, [each.name for each in filters])
        given = query_values(request.query) if filters else {}
        chosen = {each.name: given[each.name] for each in filters if each.name in given}
        return await self._ask("GET", request, upstream, path, params={"limit": limit, "offset": offset, **chosen})

    async def post(self, request: Request, upstream: str, path: str, body: bytes) -> Reply:
        return await self._ask("POST", request, upstream, path, body=body)

    async def _ask(self, method: str, request: Request, upstream: str, path: str, **how: Any) -> Reply:
        reply = await self._upstreams.request(method, upstream, path, request.principal.identity, **how)
        return Reply(200, checked(reply))


def id_in(request: Request, name: str, thing: str) -> str:
    """An id in the path. Raises ``NotFound`` for a malformed one, which cannot be anything's."""
    value = request.parameters[name]
    if not is_id(value):
        raise NotFound(f"There is no {thing} with this id.")
    return value
