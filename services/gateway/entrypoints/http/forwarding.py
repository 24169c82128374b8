"""Responses made from upstreams' bytes: their answers to reads, and the terminal events of writes."""

import asyncio
import gzip
from typing import Annotated, Any, Final

import orjson
from fastapi import Depends, Request
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from libs.eventing import Received
from libs.service_defaults.internal_calls import checked
from services.gateway.domain.accounts import Principal
from services.gateway.domain.ports import Upstreams
from services.gateway.domain.public_view import public_turn
from services.gateway.entrypoints.http.routing import PREFIX
from services.gateway.entrypoints.http.transfer_proxy import TransferProxy

_COMPRESSED_FROM: Final = 16 * 1024
# Higher levels take twice the time for a twentieth of the size.
_COMPRESSION_LEVEL: Final = 4


class Forwarder:
    """Asks upstreams for callers. Their bytes are the answer's; what they refuse is raised."""

    def __init__(self, upstreams: Upstreams) -> None:
        self._upstreams = upstreams

    async def get(self, caller: Principal, upstream: str, path: str, params: dict[str, Any] | None = None) -> Response:
        reply = await self._upstreams.request("GET", upstream, path, caller.identity, params=params or None)
        return json_answer(checked(reply))

    async def post(self, caller: Principal, upstream: str, path: str, body: bytes) -> Response:
        reply = await self._upstreams.request("POST", upstream, path, caller.identity, body=body)
        return json_answer(checked(reply))

    async def post_once(self, caller: Principal, upstream: str, path: str, body: bytes, *, deadline: float) -> Response:
        """A call with effects, made at most once."""
        reply = await self._upstreams.request(
            "POST", upstream, path, caller.identity, body=body, deadline=deadline, once=True
        )
        return json_answer(checked(reply))


class LargeAnswer(Response):
    """An answer that is compressed for callers who accept it.

    No page can learn a secret from its size: credentials are headers, which a browser adds to no request by itself.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.headers["Vary"] = "Accept-Encoding"
        if "gzip" in Headers(scope=scope).get("Accept-Encoding", ""):
            # In a thread: other requests go on meanwhile.
            self.body = await asyncio.to_thread(gzip.compress, self.body, _COMPRESSION_LEVEL, mtime=0)
            self.headers["Content-Encoding"] = "gzip"
            self.headers["Content-Length"] = str(len(self.body))
        await super().__call__(scope, receive, send)


def json_answer(body: bytes, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Ends with a line break, as a terminal wants it."""
    kind = LargeAnswer if len(body) >= _COMPRESSED_FROM else Response
    return kind(body + b"\n", status, headers, media_type="application/json")


def turn_answer(turn: bytes | memoryview, caller: Principal, status: int = 200) -> Response:
    """A turn's state, as the caller may see it."""
    if caller.public is None:
        return json_answer(bytes(turn), status)
    return json_answer(orjson.dumps(public_turn(orjson.loads(turn))), status)


def created(body: bytes, location: str | None) -> Response:
    """A 201, with the path of the created resource below ``/api/v1``."""
    return json_answer(body, 201, None if location is None else {"Location": f"{PREFIX}{location}"})


def entity_in(received: Received, name: str) -> bytes:
    """Returns a field of a successful event as JSON: the body of the answer."""
    event: dict[str, Any] = orjson.loads(received.payload)
    return orjson.dumps(event[name])


def results_in(received: Received) -> bytes:
    """Returns the ``reply`` of a bulk operation; results of single files have an error only where there is one."""
    reply: dict[str, Any] = orjson.loads(received.payload)["reply"]
    for result in reply.get("results", ()):
        error = result.pop("error", None)
        if error is not None:
            result["error"] = {name: value for name, value in error.items() if value is not None}
    return orjson.dumps(reply)


async def _forwarder(request: Request) -> Forwarder:
    found: Forwarder = request.app.state.forwarder
    return found


async def _transfers(request: Request) -> TransferProxy:
    found: TransferProxy = request.app.state.transfers
    return found


Upstream = Annotated[Forwarder, Depends(_forwarder)]
TransferProxyDep = Annotated[TransferProxy, Depends(_transfers)]
