"""Downloads responses to files."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

import httpx

from aes_client.errors import ApiError, ConnectionFailed
from aes_client.flows import Flow, Open, OpenResponse, Pause, Read
from aes_client.refusals import refusal
from aes_client.requests import TRANSFER_SECONDS, Request
from aes_client.retries import RetryPolicy


def saved(request: Request[Any], path: str | os.PathLike[str], policy: RetryPolicy) -> Flow[int]:
    """Downloads a response to a temporary file, then moves the file to ``path``. Returns its size in bytes.

    An interrupted download starts over. Raises ``ApiError`` if the service returns an error, and ``ConnectionFailed``
    after all attempts.
    """
    target, request = Path(path), replace(request, timeout=TRANSFER_SECONDS)
    beside = target.with_name(f".{target.name}.{uuid4()}.part")
    try:
        with beside.open("xb") as file:
            size = yield from _downloaded(request, file, policy)
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
    return size


def _downloaded(request: Request[Any], file: BinaryIO, policy: RetryPolicy) -> Flow[int]:
    failures = 0
    while True:
        try:
            return (yield from _read_into(request, file))
        except (httpx.TransportError, ApiError) as problem:
            failures += 1
            pause = policy.pause_after(failures, problem)
            if pause is None and isinstance(problem, ApiError):
                raise
            if pause is None:
                raise ConnectionFailed(f"GET {request.path} failed: {problem or type(problem).__name__}") from problem
        yield Pause(pause)


def _read_into(request: Request[Any], file: BinaryIO) -> Flow[int]:
    file.seek(0)
    file.truncate()
    opened: OpenResponse = yield Open(request)
    response, body = opened.response, b""
    while piece := (yield Read(opened)):
        if response.status_code < 400:
            file.write(piece)
        else:
            body += piece
    if response.status_code >= 400:
        raise refusal(response, body)
    return file.tell()
