"""Reads JSON and YAML bodies of limited size, and validates them with a model."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Generic, TypeVar

import yaml
from fastapi import Request
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect
from starlette.types import Receive

from libs.contracts.errors import InvalidRequest, TooLarge, UnsupportedMediaType
from libs.contracts.findings import invalid, required_object
from libs.service_defaults.observed_requests import begin_span
from libs.tracing import bind_correlation_id
from services.gateway.entrypoints.door.json_text import parse_json
from services.gateway.entrypoints.door.routes import RequestBody, Schema
from services.gateway.entrypoints.door.yaml_text import parse_yaml

MAX_BODY: Final = 512 * 1024
MAX_DRAIN: Final = 64 * 1024 * 1024
DRAIN_SECONDS: Final = 10.0
_READ_SECONDS: Final = 60.0
_JSON: Final = "application/json"
_YAML_TYPES: Final = ("application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml")
_SMALL_YAML: Final = 16 * 1024
M = TypeVar("M", bound=BaseModel)


class _Body(RequestBody):
    """The base class of the dependencies below. Stores the decoded values in ``request.state.values``.

    ``most_bytes``: the size limit for JSON. YAML is always limited to 512 KiB.
    """

    def __init__(
        self, schema: Schema, examples: Mapping[str, Any], *, required: bool = True, most_bytes: int = MAX_BODY
    ) -> None:
        self.body_schema = schema
        self.request_body = {"required": required, "content": _content(examples)}
        self._required = required
        self.most_bytes = most_bytes

    async def _values(self, request: Request) -> Any:
        raw = await self._raw(request)
        media_type = request.headers.get("content-type", "")
        if not raw:
            if self._required:
                raise InvalidRequest("The request needs a body.")
            raw, media_type = b"{}", _JSON
        request.state.values = values = await self._decoded(request, raw, media_type)
        return values

    async def _raw(self, request: Request) -> bytes:
        return await read_body(request.receive, request.headers, self.most_bytes)

    async def _decoded(self, request: Request, raw: bytes, media_type: str) -> Any:  # noqa: ARG002
        return await decode_body(raw, media_type)


class ParsedBody(_Body, Generic[M]):
    """Dependency that validates the body with a model. The OpenAPI document shows the model's ``EXAMPLES``."""

    def __init__(self, model: type[M], *, required: bool = True, most_bytes: int = MAX_BODY) -> None:
        super().__init__(model, getattr(model, "EXAMPLES", {}), required=required, most_bytes=most_bytes)
        self._model = model

    async def __call__(self, request: Request) -> M:
        body = validated(self._model, await self._values(request), strict=True)
        # The body may contain the request's correlation ID, which determines the trace.
        if isinstance(correlation_id := getattr(body, "correlation_id", None), str):
            bind_correlation_id(correlation_id)
        begin_span(request.scope)
        return body


def validated(model: type[M], values: Any, *, strict: bool | None = None) -> M:
    """Parses values from a body with a model. Raises ``ValidationFailed`` for invalid values."""
    try:
        return model.model_validate(values, strict=strict)
    except ValidationError as problem:
        raise invalid(problem, values, model) from None


class ParsedObject(_Body):
    """Dependency that accepts any object as the body. ``schema`` is only for the documentation."""

    async def __call__(self, request: Request) -> dict[str, Any]:
        values = required_object(await self._values(request))
        begin_span(request.scope)
        return values


def _content(examples: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the examples for the OpenAPI document, in each media type."""
    as_json = {name: {"value": value} for name, value in examples.items()}
    as_yaml = {
        name: {"value": yaml.safe_dump(value, sort_keys=False, allow_unicode=True)} for name, value in examples.items()
    }
    return {_JSON: {"examples": as_json}, **{media_type: {"examples": as_yaml} for media_type in _YAML_TYPES}}


More = Callable[[], Awaitable[int]]


async def read_body(
    receive: Receive, headers: Mapping[str, str], most_bytes: int = MAX_BODY, more: More | None = None
) -> bytes:
    """Returns the whole body. Raises ``TooLarge`` if the body exceeds the limit.

    Reads and discards a limited part of the rest, because a client that is still sending would get a connection reset
    instead of the response. ``more`` returns a higher limit for a larger body.
    """
    declared = headers.get("content-length", "")
    if more is not None and _exceeds(declared, most_bytes):
        most_bytes, more = await more(), None
    if _exceeds(declared, most_bytes):
        if headers.get("expect", "").lower() != "100-continue":
            await drain(receive)
        raise TooLarge.beyond(most_bytes, "The body")
    try:
        async with asyncio.timeout(_READ_SECONDS):
            return await _collect(receive, most_bytes, more)
    except TimeoutError:
        raise InvalidRequest(f"The body didn't arrive within {_READ_SECONDS:g} seconds.") from None


def _exceeds(declared: str, most_bytes: int) -> bool:
    return declared.isascii() and declared.isdigit() and int(declared) > most_bytes


async def _collect(receive: Receive, most_bytes: int, more: More | None) -> bytes:
    body = bytearray()
    has_more = True
    while has_more:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientDisconnect
        body += message.get("body", b"")
        has_more = message.get("more_body", False)
        if more is not None and len(body) > most_bytes:
            most_bytes, more = await more(), None
        if len(body) > most_bytes:
            body.clear()
            if has_more:
                await drain(receive)
            raise TooLarge.beyond(most_bytes, "The body")
    return bytes(body)


async def drain(receive: Receive) -> None:
    """Reads and discards the rest of a body, up to a limit. Raises ``ClientDisconnect`` if the client disconnects."""
    taken = 0
    try:
        async with asyncio.timeout(DRAIN_SECONDS):
            while taken <= MAX_DRAIN:
                message = await receive()
                if message["type"] != "http.request":
                    raise ClientDisconnect
                taken += len(message.get("body", b""))
                if not message.get("more_body"):
                    return
    except TimeoutError:
        return


async def decode_body(body: bytes, content_type: str) -> Any:
    """Decodes a JSON or YAML body. Equivalent bodies produce the same values."""
    media_type, _, parameters = content_type.lower().partition(";")
    media_type = media_type.strip()
    is_yaml = media_type in _YAML_TYPES or media_type.endswith("+yaml")
    if not is_yaml and media_type != _JSON:
        given = f"'{media_type[:100]}'" if media_type else "none"
        raise UnsupportedMediaType(f"Unsupported Content-Type {given}. Send application/json or application/yaml.")
    _check_charset(parameters)
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidRequest("The body isn't valid UTF-8.") from None
    if not is_yaml:
        return parse_json(text) if len(body) <= MAX_BODY else await asyncio.to_thread(parse_json, text)
    if len(body) > MAX_BODY:
        raise TooLarge.beyond(MAX_BODY, "The YAML body")
    # The parser is pure Python, so half a megabyte would block all other requests for seconds.
    if len(body) <= _SMALL_YAML:
        return parse_yaml(text)
    return await asyncio.to_thread(parse_yaml, text)


def _check_charset(parameters: str) -> None:
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip() == "charset" and value.strip(" \"'") not in ("utf-8", "utf8", "us-ascii"):
            raise UnsupportedMediaType("The body must be encoded as UTF-8.")
