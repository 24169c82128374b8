"""What an operation of the public API is: the one declaration that routing and the reference are made from."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from pydantic import BaseModel, TypeAdapter

from libs.contracts.identity import Scope
from services.gateway.entrypoints.http.messages import Passage, Reply, Request, Stream

Handler = Callable[[Request], Awaitable[Reply | Stream | Passage]]


class Credential(StrEnum):
    """A kind of credential that some operations take beside an API key, which all of them take."""

    BEARER = "bearer"
    PUBLIC_KEY = "public_key"


API_KEY_ONLY: Final[frozenset[Credential]] = frozenset()
VISITORS: Final = frozenset({Credential.PUBLIC_KEY})
"""For operations that the visitors of an agent need."""
ANY_CREDENTIAL: Final = frozenset(Credential)


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """A request body. ``model`` checks it before the handler runs; without one any object is let through.

    ``schema`` documents it where the upstream, not the gateway, checks it.
    """

    model: type[BaseModel] | None = None
    schema: TypeAdapter[Any] | type[BaseModel] | None = None
    examples: dict[str, Any] = field(default_factory=dict)
    required: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One documented reply: its status is the key it stands under. ``is_file``: the bytes of a file."""

    description: str
    model: Any = None
    headers: tuple[str, ...] = ()
    streams: bool = False
    is_file: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryParameter:
    """One that the upstream checks."""

    name: str
    description: str
    schema: dict[str, Any] = field(default_factory=lambda: {"type": "string"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """``path`` is below ``/api/v1``. ``scope`` is what the caller needs, if more than a valid credential.

    ``errors`` lists the statuses that can occur beside those that every operation shares. ``uploads``: the body is a
    multipart form, which the handler passes on as it comes in. ``credentials``: what it takes beside an API key.
    ``anonymous``: it takes no credential at all, and its upstream finds out by other means what may be shown.
    """

    method: str
    path: str
    name: str
    summary: str
    tag: str
    handler: Handler
    answers: dict[int, Answer]
    description: str = ""
    scope: Scope | None = None
    credentials: frozenset[Credential] = API_KEY_ONLY
    anonymous: bool = False
    body: Body | None = None
    uploads: bool = False
    query: tuple[QueryParameter, ...] = ()
    paged: bool = False
    writes: bool = False
    prefers: bool = False
    errors: tuple[int, ...] = ()
