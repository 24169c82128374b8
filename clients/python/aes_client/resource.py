"""The base class of the API's resources, and the decorators of their operations.

An operation is written once, as a method that returns a ``Request`` or a flow. On ``Client``, calling it returns the
response; on ``AsyncClient``, it returns an awaitable. Type checkers know the difference.
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
    """A resource of the API, such as sessions, whose requests are sent by a runner."""

    def __init__(self, runner: R, policy: RetryPolicy) -> None:
        self._runner = runner
        self._policy = policy

    def _send(self, request: Request[T]) -> Flow[T]:
        """Sends a request, retries it after temporary failures, and returns its response."""
        return attempts(request, self._policy)

    def _pages(
        self, path: str, name: str, kind: Any, query: Mapping[str, Any], shown: Callable[[Any], Any] = lambda item: item
    ) -> Emitting[Any]:
        """Fetches a list page by page, and yields ``shown(item)`` for each item."""
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
    """A decorator for methods that return a ``Request`` or a flow. Calling the method executes it."""

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
    """A decorator for methods that return a flow of items. Calling the method returns an iterator that fetches as
    needed.
    """

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
