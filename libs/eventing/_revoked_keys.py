"""Revoked keys, known to every process that carries out commands."""

from typing import Final

import structlog

from libs.contracts.events.gateway import ApiKeyRevoked, ConnectionDeleted
from libs.contracts.messages import MalformedEnvelope, envelope_from
from libs.contracts.topics import GATEWAY_EVENTS
from libs.eventing._tail_reader import TailReader
from libs.eventing.bus import Bus, Record

_log = structlog.get_logger("eventing.revoked_keys")
_REMEMBERED: Final = 100_000


class RevokedKeys:
    """Times at which keys were revoked, read from the gateway's events.

    The topic keeps events for longer than a command lives, so that reading it from its start replaces a table.
    A look-up is one access to a dictionary.
    """

    def __init__(self, bus: Bus) -> None:
        self._reader = TailReader(bus, [GATEWAY_EVENTS.name], self._on_record, from_start=True)
        self._revoked: dict[str, str] = {}

    @property
    def known(self) -> bool:
        """Whether all that had been revoked before the start is known."""
        return self._reader.caught_up.is_set()

    async def run(self) -> None:
        """Read until cancelled."""
        await self._reader.run()

    async def wait(self) -> None:
        """Return when all that had been revoked before the start is known: no command is carried out before that."""
        await self._reader.caught_up.wait()

    def before(self, key_id: str, time: str) -> bool:
        """Whether the key was revoked before that time, given as text as all timestamps are."""
        revoked = self._revoked.get(key_id)
        return revoked is not None and revoked < time

    def _on_record(self, record: Record) -> None:
        try:
            envelope = envelope_from(record.headers)
            if envelope.type == ApiKeyRevoked.TYPE:
                key_id = ApiKeyRevoked.decode(record.value).key_id
            elif envelope.type == ConnectionDeleted.TYPE:
                key_id = ConnectionDeleted.decode(record.value).connection_id
            else:
                return
        except (MalformedEnvelope, ValueError) as problem:
            _log.warning("event.malformed", topic=record.topic, offset=record.offset, problem=str(problem))
            return
        self._revoked[key_id] = envelope.time
        if len(self._revoked) > _REMEMBERED:
            self._revoked.pop(next(iter(self._revoked)))
