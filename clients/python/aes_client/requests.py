"""API requests, and functions that parse their responses."""

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
"""The longest time that a file transfer can go without sending or receiving data."""


@dataclass(frozen=True)
class Upload:
    """A file to upload. ``name`` is optional if the content is a path or an open file with a name."""

    content: Content
    name: str | None = None

    @contextmanager
    def opened(self) -> Iterator[tuple[str, Any]]:
        """Yields the file's name and content. Rewinds an open file, because each attempt reads the content again."""
        if isinstance(self.content, (str, os.PathLike)):
            with Path(self.content).open("rb") as file:
                yield self._name(file.name), file
        else:
            if not isinstance(self.content, bytes):
                self.content.seek(0)
            yield self._name(getattr(self.content, "name", None)), self.content

    def _name(self, own: object) -> str:
        name = self.name or (Path(own).name if isinstance(own, str) else "")
        if not name:
            raise ValueError("The content has no file name. Pass a name with an extension, such as name='report.pdf'.")
        return name


@dataclass(frozen=True)
class Request(Generic[T]):
    """A request, and the function ``answer`` that parses its response.

    ``path`` is relative to ``/api/v1``. ``body`` is JSON data or YAML text. ``timeout`` is in seconds per attempt.

    ``repeat`` says when the request can be retried. ``always`` is for reads and requests with an idempotency key.
    ``unless_sent`` is for requests that must not run twice. ``gone_is_done`` is for deletions without a key, where a
    404 after a retry means success.
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
        """Returns the request with an idempotency key: the one it already has, ``key``, or a new one."""
        if self.method == "GET" or "Idempotency-Key" in self.headers:
            return self
        return replace(self, headers={**self.headers, "Idempotency-Key": key or str(uuid4())})


def path_of(template: str, *parts: str) -> str:
    """Fills in a path's placeholders.

    Raises ``ValueError`` if a part is empty, because the path would then address another resource.
    """
    names = re.findall(r"\{(\w+)\}", template)
    for name, part in zip(names, parts, strict=True):
        if not part:
            raise ValueError(f"{name} is empty. Pass a value.")
    return template.format(**{name: quote(part, safe="") for name, part in zip(names, parts, strict=True)})


def given(**values: Any) -> dict[str, Any]:
    """Returns the arguments that aren't ``None``."""
    return {name: value for name, value in values.items() if value is not None}


def nothing(_: httpx.Response) -> None:
    """Ignores the response."""


def content(response: httpx.Response) -> bytes:
    return response.content


@cache
def _adapter(kind: Any) -> pydantic.TypeAdapter[Any]:
    return pydantic.TypeAdapter(kind)


@overload
def one(kind: type[T]) -> Answer[T]: ...
@overload
def one(kind: Any) -> Answer[Any]: ...
def one(kind: Any) -> Answer[Any]:
    """Returns a parser of responses, which raises ``UnexpectedResponse`` if the body isn't a ``kind``."""

    def read(response: httpx.Response) -> Any:
        try:
            return _adapter(kind).validate_json(response.content)
        except pydantic.ValidationError as problem:
            place = f"{response.request.method} {response.request.url} returned {response.status_code}"
            raise UnexpectedResponse(f"{place} with an unexpected body: {problem}") from problem

    return read


def one_or_none(response: httpx.Response) -> Any:
    """Returns a response's JSON, or ``None`` if the response is empty."""
    return one(Any)(response) if response.content else None


@cache
def page(kind: Any, name: str) -> Answer[Any]:
    """Returns a parser of list pages. ``name`` is the field with a page's items."""
    items = (list[kind], pydantic.Field(alias=name))
    return one(pydantic.create_model("Page", items=items, has_more=(bool, ...), next=(Any, None)))
