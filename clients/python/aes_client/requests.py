"""A request of the API with its response type. This module sends nothing."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, Generic, Literal, TypeVar, Union, overload
from urllib.parse import quote
from uuid import uuid4

import httpx
import pydantic

from aes_client.errors import UnexpectedResponse

T = TypeVar("T")
Answer = Callable[[httpx.Response], T]
Content = Union["str | os.PathLike[str]", bytes, BinaryIO]
"""A file to upload: a path, bytes, or an open file."""
Repeat = Literal["always", "unless_sent", "gone_is_done"]
TRANSFER_SECONDS = 300.0
"""The timeout of an attempt to transfer a file, and between two pieces of it."""


@dataclass(frozen=True)
class Upload:
    """A file to send. ``name`` is optional if the content has a file name."""

    content: Content
    name: str | None = None

    @contextmanager
    def opened(self) -> Iterator[tuple[str, Any]]:
        """Yields the file's name and its content from the start. Each attempt reads the content again."""
        if isinstance(self.content, bytes):
            yield self._name(None), self.content
        elif isinstance(self.content, (str, os.PathLike)):
            path = Path(self.content)
            with path.open("rb") as file:
                yield self._name(path.name), file
        else:
            self.content.seek(0)
            yield self._name(getattr(self.content, "name", None)), self.content

    def _name(self, own: object) -> str:
        name = self.name or (Path(own).name if isinstance(own, str) else "")
        if not name:
            raise ValueError("The content has no file name. Pass name, with an extension such as .pdf.")
        return name


@dataclass(frozen=True)
class Request(Generic[T]):
    """A request and the reader of its response.

    ``path`` is relative to ``/api/v1``. ``body`` is JSON data or YAML text. ``repeat`` says when to retry: ``always``
    for reads and requests with an idempotency key, ``unless_sent`` for others. With ``gone_is_done``, for deletions
    without a key, a 404 after a retry means success. ``timeout``: seconds per attempt.
    """

    method: str
    path: str
    answer: Answer[T]
    body: Any = None
    query: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    upload: Upload | None = None
    repeat: Repeat = "always"
    timeout: float | None = None

    def with_key(self, key: str | None = None) -> Request[T]:
        """Returns the request with an idempotency key: ``key``, the one it has, or a new one."""
        if self.method == "GET" or "Idempotency-Key" in self.headers:
            return self
        return replace(self, headers={**self.headers, "Idempotency-Key": key or str(uuid4())})


def path_of(template: str, *parts: str) -> str:
    """Fills in a path. Raises ``ValueError`` for an empty part, since the path would address another resource."""
    names = re.findall(r"\{(\w+)\}", template)
    for name, part in zip(names, parts, strict=True):
        if not part:
            raise ValueError(f"{name} is empty. Pass the ID.")
    return template.format(**{name: quote(part, safe="") for name, part in zip(names, parts, strict=True)})


def given(**values: Any) -> dict[str, Any]:
    """Returns the values that aren't ``None``."""
    return {name: value for name, value in values.items() if value is not None}


def nothing(_: httpx.Response) -> None:
    """Reads a response without a body."""


def content(response: httpx.Response) -> bytes:
    return response.content


def document(response: httpx.Response) -> Any:
    """Reads any JSON. Raises ``UnexpectedResponse``."""
    try:
        return response.json()
    except ValueError:
        raise UnexpectedResponse(f"{response.request.url} returned {response.status_code} without JSON") from None


def document_or_none(response: httpx.Response) -> Any:
    return document(response) if response.content else None


@cache
def _adapter(kind: Any) -> pydantic.TypeAdapter[Any]:
    return pydantic.TypeAdapter(kind)


@overload
def one(kind: type[T]) -> Answer[T]: ...
@overload
def one(kind: Any) -> Answer[Any]: ...
def one(kind: Any) -> Answer[Any]:
    """Returns a reader for responses of a type. It raises ``UnexpectedResponse`` for anything else."""

    def read(response: httpx.Response) -> Any:
        try:
            return _adapter(kind).validate_json(response.content)
        except pydantic.ValidationError as problem:
            place = f"{response.request.method} {response.request.url} returned {response.status_code}"
            raise UnexpectedResponse(f"{place} with an unexpected body: {problem}") from problem

    return read


@dataclass(frozen=True)
class Page(Generic[T]):
    """A page of a list. ``next``: the cursor of the following page."""

    items: list[T]
    has_more: bool
    next: Any = None


def page(kind: Any, name: str) -> Answer[Page[Any]]:
    """Returns a reader for pages with their items in the field ``name``."""

    def read(response: httpx.Response) -> Page[Any]:
        found = document(response)
        try:
            return Page(_adapter(list[kind]).validate_python(found[name]), bool(found["has_more"]), found.get("next"))
        except (KeyError, TypeError, pydantic.ValidationError) as problem:
            raise UnexpectedResponse(f"{response.request.url} didn't return a page of {name}") from problem

    return read
