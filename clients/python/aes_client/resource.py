"""Base class and decorators of the API's operations.

An operation is written once, as a method that returns a ``Request`` or a flow. On ``Client``, a call returns the
response; on ``AsyncClient``, an awaitable of it. Type checkers see the difference.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from types import MethodType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from aes_client.flows import Emit, Emitting, Flow
from aes_client.requests import Request, page
from aes_client.retries import RetryPolicy, attempts
from aes_client.runners import AsyncRunner, SyncRunner

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R", bound="SyncRunner | AsyncRunner")
PAGE = 200


class Resource(Generic[R]):
    """A part of the API, bound to a runner."""

    def __init__(self, runner: R, policy: RetryPolicy) -> None:
        self._runner = runner
        self._policy = policy

    def _send(self, request: Request[T]) -> Flow[T]:
        """Sends a request, retries it while that can help, and returns its response."""
        return attempts(request, self._policy)

    def _pages(
        self, path: str, name: str, kind: Any, query: Mapping[str, Any], shown: Callable[[Any], Any] = lambda item: item
    ) -> Emitting[Any]:
        """Yields all items of a list, page by page, mapped by ``shown``."""
        offset, wanted = 0, {**query, "limit": PAGE}
        while True:
            found = yield from self._send(Request("GET", path, page(kind, name), query=wanted))
            for item in found.items:
                yield Emit(shown(item))
            if not found.has_more or (found.next is None and not found.items):
                return
            # Some lists are paged by offset instead of a cursor.
            offset += len(found.items)
            behind = {"offset": offset} if found.next is None else {"after": found.next}
            wanted = {**query, "limit": PAGE, **behind}


class operation(Generic[P, T]):  # noqa: N801 - read as a keyword
    """Decorator for a method that describes one API call."""

    def __init__(self, described: Callable[Concatenate[Any, P], Request[T] | Flow[T]]) -> None:
        @functools.wraps(described)
        def call(resource: Resource[Any], *arguments: P.args, **keywords: P.kwargs) -> Any:
            wanted = described(resource, *arguments, **keywords)
            return resource._runner.run(resource._send(wanted) if isinstance(wanted, Request) else wanted)

        self._call = call

    @overload
    def __get__(self, resource: None, owner: type) -> Self: ...
    @overload
    def __get__(self, resource: Resource[SyncRunner], owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, resource: Resource[AsyncRunner], owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, resource: Resource[Any] | None, owner: type) -> Any:
        return self if resource is None else MethodType(self._call, resource)


class iteration(Generic[P, T]):  # noqa: N801 - read as a keyword
    """Decorator for a method that describes an iterator. Items are fetched as needed."""

    def __init__(self, described: Callable[Concatenate[Any, P], Emitting[T]]) -> None:
        @functools.wraps(described)
        def call(resource: Resource[Any], *arguments: P.args, **keywords: P.kwargs) -> Any:
            return resource._runner.iterate(described(resource, *arguments, **keywords))

        self._call = call

    @overload
    def __get__(self, resource: None, owner: type) -> Self: ...
    @overload
    def __get__(self, resource: Resource[SyncRunner], owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, resource: Resource[AsyncRunner], owner: type) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, resource: Resource[Any] | None, owner: type) -> Any:
        return self if resource is None else MethodType(self._call, resource)
