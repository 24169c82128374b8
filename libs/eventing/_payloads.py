"""Payloads too large for the bus: fetched from their owner over HTTP and checked against their hash."""

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from libs.contracts.envelope import Envelope

_MAX_EVENT_BYTES: Final = 512 * 1024

Fetch = Callable[[str, str, str], Awaitable[bytes]]
"""Reads ``path`` from an owner's internal API for a company: ``(owner, path, company_id)``."""


def referring_if_large(envelope: Envelope, payload: bytes) -> tuple[Envelope, bytes]:
    """The envelope and value to send: the payload, or above 512 KiB a reference to where its owner serves it."""
    if len(payload) <= _MAX_EVENT_BYTES:
        return envelope, payload
    path = f"/internal/events/{envelope.id}/payload"
    return replace(envelope, data_ref=path, data_hash=hashlib.sha256(payload).hexdigest()), b""


class PayloadCorrupt(Exception):
    """The fetched bytes do not have the hash in the event."""


class PayloadReader:
    """Reads an event's payload from the message, or from its owner."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch

    async def read(self, envelope: Envelope, value: bytes) -> bytes:
        """Raises what the fetch raises, and ``PayloadCorrupt``."""
        if envelope.data_ref is None:
            return value
        owner = envelope.type.split(".")[1]
        fetched = await self._fetch(owner, envelope.data_ref, envelope.company_id)
        if hashlib.sha256(fetched).hexdigest() != envelope.data_hash:
            raise PayloadCorrupt(f"payload of event {envelope.id}")
        return fetched
