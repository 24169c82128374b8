"""Parses which response the client prefers, and converts replies from other services into responses."""

import asyncio
import gzip
import re
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import orjson
from pydantic import BaseModel
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from libs.contracts.messages import Received
from libs.service_defaults import UpstreamClient
from libs.service_defaults.internal_calls import checked, refusal
from services.gateway.domain.accounts import Principal
from services.gateway.domain.public_view import public_turn
from services.gateway.entrypoints.door.routes import PREFIX
from services.gateway.entrypoints.door.streams import MEDIA_TYPE

M = TypeVar("M", bound=BaseModel)
_COMPRESSED_FROM: Final = 16 * 1024
# Higher levels take twice as long to save another 5 %.
_COMPRESSION_LEVEL: Final = 4
DEFAULT_WAIT: Final = 120.0
MAX_WAIT: Final = 600.0
_WAIT: Final = re.compile(r"wait\s*=\s*\"?(\d{1,9})\"?", re.ASCII)
_WEIGHT: Final = re.compile(r"q\s*=\s*([01](?:\.\d{0,3})?)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Preference:
    """A parsed ``Prefer`` header. ``wait``: how many seconds to wait for the turn, or 0 to respond immediately."""

    wait: float = DEFAULT_WAIT
    applied: str = ""


def preference_of(prefer: str | None) -> Preference:
    """Parses a ``Prefer`` header. Ignores unknown preferences, as RFC 7240 requires."""
    if not prefer:
        return Preference()
    wait: float | None = None
    respond_async = False
    for part in prefer.lower().split(","):
        preference = part.partition(";")[0].strip()
        respond_async = respond_async or preference == "respond-async"
        matched = _WAIT.fullmatch(preference)
        if matched and wait is None:
            wait = min(float(matched[1]), MAX_WAIT)
    if respond_async:
        return Preference(wait or 0.0, "respond-async")
    return Preference() if wait is None else Preference(wait, f"wait={wait:g}")


def wants_events(accept: str | None) -> bool:
    """Returns whether an ``Accept`` header names event streams and doesn't prefer JSON."""
    if accept is None or MEDIA_TYPE not in accept.lower():
        return False
    weights = dict(map(_weighed, accept.lower().split(",")))
    events = weights.get(MEDIA_TYPE, 0.0)
    return events > 0 and events >= weights.get("application/json", 0.0)


def _weighed(accepted: str) -> tuple[str, float]:
    """Parses a media type in ``Accept`` and its weight, which defaults to 1."""
    media_type, *parameters = (part.strip() for part in accepted.split(";"))
    given = next((_WEIGHT.fullmatch(each) for each in parameters if each.startswith("q")), None)
    return media_type, float(given[1]) if given else 1.0


class UpstreamReplies:
    """Requests data from other services, and returns it without parsing it. Raises their errors."""

    def __init__(self, upstreams: UpstreamClient) -> None:
        self._upstreams = upstreams

    async def get(self, caller: Principal, upstream: str, path: str, params: dict[str, Any] | None = None) -> Response:
        return json_answer(checked(await self._upstreams.get(upstream, path, caller.identity, params)))

    async def post(self, caller: Principal, upstream: str, path: str, body: bytes) -> Response:
        return json_answer(await self.ask(caller, upstream, path, body))

    async def read(
        self, model: type[M], caller: Principal, upstream: str, path: str, params: dict[str, Any] | None = None
    ) -> M:
        return await self._upstreams.read(model, upstream, path, caller.identity, params)

    async def ask(self, caller: Principal, upstream: str, path: str, body: bytes) -> bytes:
        return checked(await self._upstreams.request("POST", upstream, path, caller.identity, body=body))

    async def file(self, caller: Principal, upstream: str, path: str) -> bytes:
        """Returns the content of a file, which must fit in memory."""
        async with self._upstreams.exchange("GET", upstream, path, caller.identity) as answer:
            content = b"".join([piece async for piece in answer.pieces])
        if answer.status != 200:
            raise refusal(answer.status, content)
        return content

    async def post_once(self, caller: Principal, upstream: str, path: str, body: bytes, *, deadline: float) -> Response:
        """Makes a request that has side effects, without retries."""
        reply = await self._upstreams.request(
            "POST", upstream, path, caller.identity, body=body, deadline=deadline, once=True
        )
        return json_answer(checked(reply))


class LargeAnswer(Response):
    """A response that is compressed for clients that accept compression.

    The response's size can't reveal secrets to a web page (the BREACH attack), because browsers never add the
    credential headers on their own.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.headers["Vary"] = "Accept-Encoding"
        if "gzip" in Headers(scope=scope).get("Accept-Encoding", ""):
            # Compresses in a thread, so as not to block other requests.
            self.body = await asyncio.to_thread(gzip.compress, self.body, _COMPRESSION_LEVEL, mtime=0)
            self.headers["Content-Encoding"] = "gzip"
            self.headers["Content-Length"] = str(len(self.body))
        await super().__call__(scope, receive, send)


def json_answer(body: bytes, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Returns a JSON response. A final line break makes it easier to read in a terminal."""
    kind = LargeAnswer if len(body) >= _COMPRESSED_FROM else Response
    return kind(body + b"\n", status, headers, media_type="application/json")


def model_answer(model: BaseModel, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return json_answer(model.model_dump_json().encode(), status, headers)


def value_answer(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return json_answer(orjson.dumps(value), status, headers)


def turn_answer(turn: bytes | memoryview, caller: Principal, status: int = 200) -> Response:
    """Returns the part of a turn's state that the caller may see."""
    if caller.public is None:
        return json_answer(bytes(turn), status)
    return value_answer(public_turn(orjson.loads(turn)), status)


def created(body: bytes, location: str | None) -> Response:
    """Returns a 201 response. ``location``: the path of the created resource below ``/api/v1``."""
    return json_answer(body, 201, None if location is None else {"Location": f"{PREFIX}{location}"})


def entity_in(received: Received, name: str) -> bytes:
    """Returns a field of an event as JSON."""
    event: dict[str, Any] = orjson.loads(received.payload)
    return orjson.dumps(event[name])


def rendered(outcome: Received, name: str | None = None, *, location: str | None = None) -> Response:
    """Returns the response to a successful write. ``name``: the event's field to return.

    The status is 204 without a ``name``, 201 with a ``location``, and 200 otherwise.
    """
    if name is None:
        return Response(status_code=204)
    entity = orjson.loads(outcome.payload)[name]
    body = orjson.dumps(entity)
    return json_answer(body) if location is None else created(body, location.format_map(entity))


def results_in(received: Received) -> bytes:
    """Returns the ``reply`` of a bulk operation as JSON, without null ``error`` fields."""
    reply: dict[str, Any] = orjson.loads(received.payload)["reply"]
    for result in reply.get("results", ()):
        error = result.pop("error", None)
        if error is not None:
            result["error"] = {name: value for name, value in error.items() if value is not None}
    return orjson.dumps(reply)
