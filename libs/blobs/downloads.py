"""Responses with stored files, including byte ranges and 304 for unchanged files."""

import re
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol
from urllib.parse import quote

from fastapi import Request
from starlette.responses import Response, StreamingResponse

from libs.objects import Pieces

_RANGE: Final = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)


class Stored(Protocol):
    """The properties of a stored file that a download needs. ``size`` is in bytes."""

    @property
    def name(self) -> str: ...
    @property
    def content_type(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def sha256(self) -> str: ...


class OpenPieces(Protocol):
    def __call__(self, *, start: int, length: int) -> Awaitable[Pieces]: ...


async def download(request: Request, file: Stored, open_pieces: OpenPieces, *, inline: bool = False) -> Response:
    """Returns a response with the whole file or the requested range."""
    want = wanted(request.headers, size=file.size, etag=f'"{file.sha256}"')
    headers = download_headers(want, name=file.name, inline=inline)
    if want.length == 0:
        return Response(status_code=want.status, headers=headers)
    pieces = await open_pieces(start=want.start, length=want.length)
    # Starlette would add a charset to text types, but the file's encoding is unknown.
    return StreamingResponse(pieces, want.status, {**headers, "Content-Type": file.content_type})


@dataclass(frozen=True, slots=True)
class Wanted:
    """The status and byte range of a response. ``length`` is 0 for the statuses 304 and 416."""

    status: int
    start: int
    length: int
    size: int
    etag: str


def wanted(headers: Mapping[str, str], *, size: int, etag: str) -> Wanted:
    """Determines the response's status and range from the request headers.

    ``etag`` includes its quotes. A request for several ranges gets the whole file.
    """
    if _tags(headers.get("if-none-match", "")) & {etag, "*"}:
        return Wanted(304, 0, 0, size, etag)
    whole = Wanted(200, 0, size, size, etag)
    matched = _RANGE.fullmatch(headers.get("range", "").replace(" ", ""))
    condition = headers.get("if-range")
    if matched is None or not (matched[1] or matched[2]) or (condition is not None and condition != etag):
        return whole
    if matched[1]:
        start = int(matched[1])
        end = min(int(matched[2]), size - 1) if matched[2] else size - 1
    else:
        start, end = max(0, size - int(matched[2])), size - 1
    if matched[1] and matched[2] and int(matched[2]) < start:
        return whole
    if start > end:
        return Wanted(416, 0, 0, size, etag)
    return Wanted(206, start, end - start + 1, size, etag)


def download_headers(want: Wanted, *, name: str, inline: bool) -> dict[str, str]:
    """Returns all headers except ``Content-Type``. They prevent browsers from sniffing or running the content."""
    headers = {
        "Accept-Ranges": "bytes",
        "ETag": want.etag,
        "Content-Disposition": disposition(name, inline=inline),
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "sandbox",
        "Cache-Control": "private, no-cache",
    }
    if want.status == 206:
        headers["Content-Range"] = f"bytes {want.start}-{want.start + want.length - 1}/{want.size}"
    if want.status == 416:
        headers["Content-Range"] = f"bytes */{want.size}"
    if want.status in (200, 206):
        headers["Content-Length"] = str(want.length)
    return headers


def disposition(name: str, *, inline: bool) -> str:
    """Returns a ``Content-Disposition`` header. Old clients see only the name's ASCII characters."""
    plain = re.sub(r"[^ !#-\[\]-~]|%", "_", name)
    return f"{'inline' if inline else 'attachment'}; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"


def _tags(header: str) -> set[str]:
    return {tag.strip().removeprefix("W/") for tag in header.split(",")}
