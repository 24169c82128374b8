"""Downloads responses to files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

from aes_client.flows import Flow, Open, OpenResponse, Read
from aes_client.refusals import refusal
from aes_client.requests import Request
from aes_client.retries import RetryPolicy, attempts


def saved(request: Request[Any], path: str | os.PathLike[str], policy: RetryPolicy) -> Flow[int]:
    """Downloads a response to ``path`` and returns the file's size in bytes. Raises the same errors as ``attempts``.

    The file appears once it's complete. An interrupted download starts over.
    """
    target = Path(path)
    beside = target.with_name(f".{target.name}.{uuid4()}.part")
    try:
        with beside.open("xb") as file:
            size = yield from attempts(request, policy, lambda each: _read_into(file, each))
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
    return size


def _read_into(file: BinaryIO, request: Request[Any]) -> Flow[int]:
    file.seek(0)
    file.truncate()
    opened: OpenResponse = yield Open(request)
    if opened.response.is_error:
        raise refusal(opened.response)
    while piece := (yield Read(opened)):
        file.write(piece)
    return file.tell()
