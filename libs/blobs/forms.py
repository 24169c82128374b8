"""Parses multipart forms as a stream, without buffering them in memory or temporary files."""

import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from typing import Any, Final
from urllib.parse import unquote

from fastapi import Request
from multipart import (  # type: ignore[import-untyped]
    MultipartError,
    MultipartSegment,
    PushMultipartParser,
    parse_options_header,
)
from starlette.requests import ClientDisconnect

from libs.contracts.errors import ErrorDetail, InvalidRequest, TooLarge, UnsupportedMediaType, ValidationFailed

FIELD: Final = "file"
_BOUNDARY_BYTES: Final = 70
_FIELD_BYTES: Final = 10_000
_EXTENDED_NAME: Final = re.compile(r";\s*filename\*\s*=\s*\"?([\w-]+)'[^']*'([^;\s\"]+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FilePart:
    """A file in a multipart form. Read its ``pieces`` to the end before requesting the next part."""

    name: str
    pieces: AsyncIterator[bytes]


async def body_of(request: Request) -> AsyncIterator[bytes]:
    """Yields the pieces of the request body. Raises ``InvalidRequest`` if the body is incomplete."""
    try:
        async for piece in request.stream():
            yield piece
    except ClientDisconnect:
        raise InvalidRequest("The body is incomplete.") from None


def boundary_of(content_type: str) -> str:
    """Returns the boundary of a multipart form. Raises ``UnsupportedMediaType`` for another content type."""
    media_type, options = parse_options_header(content_type)
    boundary = str(options.get("boundary", ""))
    is_readable = 0 < len(boundary) <= _BOUNDARY_BYTES and boundary.isascii() and boundary.isprintable()
    if media_type != "multipart/form-data" or not is_readable:
        raise UnsupportedMediaType("The Content-Type must be multipart/form-data with a boundary.")
    return boundary


async def file_parts(body: AsyncIterator[bytes], content_type: str) -> AsyncIterator[FilePart]:
    """Yields the parts named ``file``, in order.

    Raises ``InvalidRequest`` for a malformed body, possibly while a part is being read. Raises ``ValidationFailed``
    if the form has other fields.
    """
    events = _events(body, boundary_of(content_type))
    async for event in events:
        if isinstance(event, MultipartSegment):
            yield FilePart(_file_name(event), _until_end(events))


async def without_fields(
    body: AsyncIterator[bytes], content_type: str, take: Callable[[str, str], None]
) -> AsyncIterator[bytes]:
    """Yields the form's bytes without the fields that aren't files.

    ``take`` receives the name and value of each of these fields, and the name of each file. Raises ``InvalidRequest``
    for a malformed body, ``TooLarge`` for a field over 10 KB, and any error that ``take`` raises.
    """
    boundary = boundary_of(content_type).encode()
    events = _events(body, boundary.decode())
    async for event in events:
        if not isinstance(event, MultipartSegment):
            continue
        if event.name != FIELD:
            take(event.name or "", await _value(event.name, _until_end(events)))
            continue
        take(FIELD, _file_name(event))
        head = "".join(f"{name}: {value}\r\n" for name, value in event.headerlist)
        yield b"--" + boundary + b"\r\n" + head.encode() + b"\r\n"
        async for piece in _until_end(events):
            yield piece
        yield b"\r\n"
    yield b"--" + boundary + b"--\r\n"


async def _value(name: str | None, pieces: AsyncIterator[bytes]) -> str:
    value = b""
    async for piece in pieces:
        value += piece
        if len(value) > _FIELD_BYTES:
            raise TooLarge.beyond(_FIELD_BYTES, f"'{name}'")
    return value.decode("utf-8", "replace")


async def _until_end(events: AsyncIterator[Any]) -> AsyncIterator[bytes]:
    async for event in events:
        if event is None:
            return
        yield bytes(event)


async def _events(body: AsyncIterator[bytes], boundary: str) -> AsyncIterator[Any]:
    parser = PushMultipartParser(boundary)
    try:
        async for piece in body:
            if piece:
                for event in parser.parse(piece):
                    yield event
        parser.close()
    except MultipartError as problem:
        # The error's first argument is the parser's message. The others are Python exceptions.
        raise InvalidRequest(f"The body isn't a valid multipart form: {problem.args[0]}.") from None


def _file_name(segment: MultipartSegment) -> str:
    if segment.name != FIELD:
        name = (segment.name or "")[:100]
        raise _invalid(name, "extra_forbidden", "isn't a known field", f"send files in fields named '{FIELD}'")
    if not segment.filename:
        raise _invalid(FIELD, "file_name_missing", "must be a file", 'add filename="…" to the part')
    return _given_name(segment)


def _given_name(segment: MultipartSegment) -> str:
    """Returns the file's name, from ``filename*`` if present, otherwise from ``filename``.

    .NET sends both, and encodes ``filename`` as in email headers.
    """
    headers = {name.lower(): value for name, value in segment.headerlist}
    name = str(segment.filename)
    try:
        if extended := _EXTENDED_NAME.search(headers.get("content-disposition", "")):
            return unquote(extended.group(2), extended.group(1), "strict")
        return str(make_header(decode_header(name))) if name.startswith("=?") else name
    except (LookupError, ValueError, HeaderParseError):
        return name


def _invalid(name: str, kind: str, message: str, hint: str) -> ValidationFailed:
    detail = ErrorDetail(loc=[name], type=kind, message=message, hint=hint)
    return ValidationFailed(f"Invalid body: {name}: {message}.", details=[detail])
