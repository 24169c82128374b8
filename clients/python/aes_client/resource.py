"""The base class of the API's resources, and decorators for their operations.

An operation is a method that returns a ``Request`` or a flow. The decorated method returns the response on ``Client``,
and an awaitable on ``AsyncClient``.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from types import MethodType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, cast, overload

from aes_client.flows import Emit, Emitting, Flow
from aes_client.requests import Request, page
from aes_client.retries import attempts, sent
from aes_client.runners import AsyncRunner, SyncRunner

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")
P = ParamSpec("P")
Result = TypeVar("Result")
AsyncResult = TypeVar("AsyncResult")
R = TypeVar("R", bound="SyncRunner | AsyncRunner")
_PAGE = 200


class Resource(Generic[R]):
    """A resource of the API, such as sessions."""

    def __init__(self, runner: R) -> None:
        self._runner = runner

    def _send(self, request: Request[T]) -> Flow[T]:
        """Sends a request and retries it after temporary failures."""
        return attempts(request, self._runner.policy, sent)

    def _pages(
        self, path: str, name: str, kind: Any, query: Mapping[str, Any], shown: Callable[[Any], Any] = lambda item: item
    ) -> Emitting[Any]:
        """Fetches a list page by page, and yields ``shown(item)`` for each item."""
        offset, wanted = 0, {**query, "limit": _PAGE}
        cursor = "before" if query.get("order") == "desc" else "after"
        while True:
            found = yield from self._send(Request("GET", path, page(kind, name), query=wanted))
            for item in found.items:
                yield Emit(shown(item))
            # A page can be empty although more items follow.
            if not found.has_more or (found.next is None and not found.items):
                return
            # Some lists are paged by offset instead of a cursor.
            offset += len(found.items)
            behind = {"offset": offset} if found.next is None else {cursor: found.next}
            wanted = {**query, "limit": _PAGE, **behind}


class Method(Generic[P, Result, AsyncResult]):
    """A method that returns a ``Result`` on ``Client`` and an ``AsyncResult`` on ``AsyncClient``."""

    def __init__(self, described: Callable[Concatenate[Any, P], Any], run: Callable[[Resource[Any], Any], Any]) -> None:
        @functools.wraps(described)
        def call(resource: Resource[Any], *arguments: P.args, **keywords: P.kwargs) -> Any:
            return run(resource, described(resource, *arguments, **keywords))

        self._described = described
        self._call = call

    def request(self, resource: Resource[Any], *arguments: P.args, **keywords: P.kwargs) -> Request[Result]:
        """Returns the operation's request without sending it, for use in a flow."""
        return cast("Request[Result]", self._described(resource, *arguments, **keywords))

    @overload
    def __get__(self, resource: None, owner: type) -> Self: ...
    @overload
    def __get__(self, resource: Resource[SyncRunner], owner: type) -> Callable[P, Result]: ...
    @overload
    def __get__(self, resource: Resource[AsyncRunner], owner: type) -> Callable[P, AsyncResult]: ...
    def __get__(self, resource: Resource[Any] | None, owner: type) -> Any:
        return self if resource is None else MethodType(self._call, resource)


def operation(
    described: Callable[Concatenate[Any, P], Request[T] | Flow[T]],
) -> Method[P, T, Coroutine[Any, Any, T]]:
    """A decorator for methods that return a ``Request`` or a flow. Callers get the result."""

    def run(resource: Resource[Any], wanted: Request[T] | Flow[T]) -> Any:
        return resource._runner.run(resource._send(wanted) if isinstance(wanted, Request) else wanted)

    return Method(described, run)


def iteration(described: Callable[Concatenate[Any, P], Emitting[T]]) -> Method[P, Iterator[T], AsyncIterator[T]]:
    """A decorator for methods that return a flow of items. Callers get an iterator."""
    return Method(described, lambda resource, items: resource._runner.iterate(items))
