"""Operations describe requests; their client's runner sends them.

An operation is written once, as a method that returns a ``Request`` or a flow. Of a resource of ``Client`` it returns
the answer, of one of ``AsyncClient`` an awaitable of it, and the type checker knows.
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
    """A part of the API, in the hands of a runner."""

    def __init__(self, runner: R, policy: RetryPolicy) -> None:
        self._runner = runner
        self._policy = policy

    def _send(self, request: Request[T]) -> Flow[T]:
        """The answer to a request, which is repeated while that may help."""
        return attempts(request, self._policy)

    def _pages(
        self, path: str, name: str, kind: Any, query: Mapping[str, Any], shown: Callable[[Any], Any] = lambda item: item
    ) -> Emitting[Any]:
        """All items of a list, page by page, each as it is ``shown``."""
        offset, wanted = 0, {**query, "limit": PAGE}
        while True:
            found = yield from self._send(Request("GET", path, page(kind, name), query=wanted))
            for item in found.items:
                yield Emit(shown(item))
            if not found.has_more or (found.next is None and not found.items):
                return
            # Short lists have no cursors.
            offset += len(found.items)
            behind = {"offset": offset} if found.next is None else {"after": found.next}
            wanted = {**query, "limit": PAGE, **behind}


class operation(Generic[P, T]):  # noqa: N801 - read as a keyword
    """Decorator: the method describes one call of the API."""

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
    """Decorator: the method describes a series of items, which are fetched as they are taken."""

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
