"""Forwards uploads and downloads to and from other services, without buffering them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from fastapi import Request
from starlette.requests import ClientDisconnect
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from libs.blobs.forms import boundary_of
from libs.contracts.errors import RangeNotSatisfiable, RateLimited, ServiceError, ServiceUnavailable
from libs.fairness import FairSemaphore, QueueFull
from libs.service_defaults import UpstreamClient, UpstreamStream
from libs.service_defaults.internal_calls import refusal
from services.gateway.domain.accounts import Principal
from services.gateway.entrypoints.door.errors import refusal as refused
from services.gateway.entrypoints.door.streams import held_by, no_body
from services.gateway.entrypoints.door.upload_stream import UploadStream
from services.gateway.entrypoints.door.writes import checked_key

_CONDITIONS: Final = ("Range", "If-Range", "If-None-Match")
_PASSED_ON: Final = (
    "Accept-Ranges", "Cache-Control", "Content-Disposition", "Content-Length", "Content-Range",
    "Content-Security-Policy", "Content-Type", "ETag", "X-Content-Type-Options",
)  # fmt: skip
_PIECE_SECONDS: Final = 60.0
# Downloads by link have separate permits. All permits together mustn't exceed the upstream client's stream connections.
MOST_TRANSFERS: Final = 192
COMPANY_TRANSFERS: Final = 64
_RETRY_SECONDS: Final = 2


class ProxyResponse(StreamingResponse):
    """Forwards another service's response as it arrives.

    ``piece_seconds``: how long the client may take to receive a chunk. Slower clients would block connections.
    """

    def __init__(self, answer: UpstreamStream, *, piece_seconds: float = _PIECE_SECONDS) -> None:
        headers = {name: answer.headers[name] for name in _PASSED_ON if name in answer.headers}
        super().__init__(answer.pieces, answer.status, headers)
        self._piece_seconds = piece_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout(self._piece_seconds):
                await send(message)

        if scope["method"] == "HEAD":
            self.body_iterator = no_body()
        await self.stream_response(send_in_time)


class TransferProxy:
    """Forwards uploads and downloads. Raises the other services' errors.

    A slow client occupies a connection for a long time, so each company gets a share of the permits, and all downloads
    by link share a separate set. Transfers don't wait for a permit.
    """

    def __init__(self, upstreams: UpstreamClient, *, most: int = MOST_TRANSFERS, each: int = COMPANY_TRANSFERS) -> None:
        self._upstreams = upstreams
        self._each = each
        self._permits = FairSemaphore(most, each=each, waiting=0)
        self._most_links = most // 2
        self._permits_of_links = FairSemaphore(self._most_links, each=self._most_links, waiting=0)

    @asynccontextmanager
    async def permit(self, company_id: str) -> AsyncIterator[None]:
        """Holds a permit. Raises ``RateLimited`` if the company has used up its share.

        Raises ``ServiceUnavailable`` if no permit is free.
        """
        try:
            async with (self._permits if company_id else self._permits_of_links).acquire(company_id):
                yield
        except QueueFull as full:
            if full.held < (self._each if company_id else self._most_links):
                message = "Too many uploads and downloads are in progress. Try again later."
                raise ServiceUnavailable(message, retry_after=_RETRY_SECONDS) from None
            message = f"{full.held} uploads and downloads are already in progress. Wait for one of them to end."
            raise RateLimited(message, retry_after=_RETRY_SECONDS) from None

    async def upload(self, request: Request, caller: Principal, body: UploadStream, upstream: str, path: str) -> bytes:
        """Forwards a multipart form as it arrives. Returns the other service's reply.

        Raises ``UnsupportedMediaType`` for another kind of body, ``TooLarge`` above the limit, and the same errors
        as ``permit``.
        """
        try:
            async with self.permit(caller.identity.company_id):
                return await self._send(request, caller, body, upstream, path)
        except ServiceError:
            await body.stop()
            raise

    async def _send(self, request: Request, caller: Principal, body: UploadStream, upstream: str, path: str) -> bytes:
        content_type = request.headers.get("content-type", "")
        boundary_of(content_type)
        body.check_length()
        headers = {"Content-Type": content_type}
        if (key := request.headers.get("idempotency-key")) is not None:
            headers["Idempotency-Key"] = checked_key(key, caller)
        try:
            async with self._upstreams.exchange(
                "POST", upstream, path, caller.identity, body=body.pieces(), headers=headers
            ) as answer:
                reply = b"".join([piece async for piece in answer.pieces])
                # The upstream may have rejected the upload early, and then doesn't need the rest.
                await body.stop()
        except ServiceError:
            if body.problem is not None:
                raise body.problem from None
            raise
        if isinstance(body.problem, ClientDisconnect):
            raise body.problem
        if answer.status >= 400:
            raise body.problem or refusal(answer.status, reply)
        return reply

    async def download(
        self, request: Request, caller: Principal, upstream: str, path: str, *, checks_credential: bool = False
    ) -> Response:
        """Returns a response that forwards a file or the requested range of it.

        ``checks_credential``: whether the other service checks the caller's credential. If so, a 401 is passed on to
        the caller.
        """
        headers = {name: request.headers[name] for name in _CONDITIONS if name in request.headers}
        held = held_by(request)
        await held.enter_async_context(self.permit(caller.identity.company_id))
        answer = await held.enter_async_context(
            self._upstreams.exchange("GET", upstream, path, caller.identity, headers=headers)
        )
        if answer.status == 416:
            response = refused(RangeNotSatisfiable("The range is past the end of the file."))
            response.headers["Content-Range"] = answer.headers.get("Content-Range", "bytes */*")
            return response
        if answer.status >= 400:
            body = b"".join([piece async for piece in answer.pieces])
            raise refusal(answer.status, body, checks_credential=checks_credential)
        return ProxyResponse(answer)
