"""Uploads and downloads, passed between callers and upstreams without being held."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from libs.contracts.errors import ServiceError
from libs.contracts.identity import Identity
from libs.service_defaults import UpstreamStream
from libs.service_defaults.uploads import boundary_of
from libs.service_defaults.upstream_answers import refusal
from services.gateway.domain.ports import Upstreams
from services.gateway.entrypoints.http.bodies import ClientGone
from services.gateway.entrypoints.http.messages import Passage, Reply, Request
from services.gateway.entrypoints.http.transfers import Transfers

_CONDITIONS = (b"range", b"if-range", b"if-none-match")


class TransferProxy:
    """What the upstream answers is the answer; what it refuses is raised."""

    def __init__(self, upstreams: Upstreams, transfers: Transfers) -> None:
        self._upstreams = upstreams
        self._transfers = transfers

    async def upload(self, request: Request, upstream: str, path: str) -> bytes:
        """Send the request's multipart form to the upstream as it comes in; returns the upstream's reply.

        Raises ``UnsupportedMediaType`` for any other body, ``TooLarge``, and ``RateLimited`` when the caller has too
        many under way.
        """
        try:
            with self._transfers.one_of(request.principal.identity):
                return await self._send(request, upstream, path)
        except ServiceError:
            await request.incoming.stop()
            raise

    async def _send(self, request: Request, upstream: str, path: str) -> bytes:
        incoming = request.incoming
        content_type = request.headers.get(b"content-type", b"").decode("latin-1")
        boundary_of(content_type)
        incoming.check_length()
        headers = {"Content-Type": content_type}
        if key := request.idempotency_key():
            headers["Idempotency-Key"] = key
        identity = request.principal.identity
        try:
            async with self._upstreams.exchange(
                "POST", upstream, path, identity, body=incoming.pieces(), headers=headers
            ) as answer:
                reply = b"".join([piece async for piece in answer.pieces])
                # An upstream that refuses early does so before the body's end; the rest is not for it.
                await incoming.stop()
        except ServiceError:
            if incoming.problem is not None:
                raise incoming.problem from None
            raise
        if isinstance(incoming.problem, ClientGone):
            raise incoming.problem
        if answer.status >= 400:
            raise incoming.problem or refusal(answer.status, reply)
        return reply

    def download(
        self, request: Request, upstream: str, path: str, *, query: str = "", judges_caller: bool = False
    ) -> Passage:
        """The upstream's bytes, or the part that the request asks for."""
        headers = {
            name.decode(): request.headers[name].decode("latin-1") for name in _CONDITIONS if name in request.headers
        }
        place = f"{path}?{query}" if query else path
        return Passage(self._fetch(upstream, place, request.principal.identity, headers), judges_caller=judges_caller)

    @asynccontextmanager
    async def _fetch(
        self, upstream: str, place: str, identity: Identity, headers: dict[str, str]
    ) -> AsyncIterator[UpstreamStream]:
        with self._transfers.one_of(identity):
            async with self._upstreams.exchange("GET", upstream, place, identity, headers=headers) as answer:
                yield answer


def created(reply: bytes, location: str | None) -> Reply:
    """A 201, with the place of what was made."""
    return Reply(201, reply, [] if location is None else [(b"location", location.encode())])
