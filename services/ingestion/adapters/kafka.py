"""Sends work to the topic ``ingestion-work``."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import structlog

from libs.contracts.identifiers import new_id
from libs.contracts.messages import Envelope
from libs.contracts.timestamps import format_time
from libs.contracts.topics import INGESTION_WORK
from libs.eventing.bus import BusUnavailable, Producer
from services.ingestion.domain.runs import Due, encode_work

_log = structlog.get_logger(__name__)
_TYPE: Final = "aes.ingestion.work.v1"
_SECONDS: Final = 10.0
# The files in a message are embedded and written together.
_MOST_IN_A_MESSAGE: Final = 32
_LEAST_MESSAGES: Final = 8


class KafkaWorkSender:
    def __init__(self, producer: Producer, *, source: str) -> None:
        self._producer = producer
        self._source = source

    async def send(self, work: Sequence[Due]) -> list[Due]:
        """Sends work to the bus. Returns the work that couldn't be sent."""
        sent: list[tuple[asyncio.Future[None], list[Due]]] = []
        messages = grouped(work)
        try:
            for message in messages:
                key, value = message[0].message_key, encode_work([due.key for due in message])
                headers = self._envelope(message[0]).headers()
                sent.append((await self._producer.send(INGESTION_WORK.name, key, value, headers), message))
        except BusUnavailable as problem:
            _log.warning("work.bus_unavailable", problem=str(problem))
        if sent:
            await asyncio.wait([future for future, _ in sent], timeout=_SECONDS)
        lost = [message for future, message in sent if not future.done() or future.exception() is not None]
        return [due for message in (*lost, *messages[len(sent) :]) for due in message]

    def _envelope(self, due: Due) -> Envelope:
        return Envelope(
            id=new_id(),
            type=_TYPE,
            source=self._source,
            subject=due.subject,
            time=format_time(datetime.now(UTC)),
            correlation_id=due.correlation_id,
            company_id=due.company_id,
        )


def grouped(work: Sequence[Due]) -> list[list[Due]]:
    """Groups work by correlation ID into messages: only a few, but enough to keep all workers busy."""
    by_correlation: dict[tuple[str, str], list[Due]] = {}
    for due in work:
        by_correlation.setdefault((due.company_id, due.correlation_id), []).append(due)
    messages = []
    for together in by_correlation.values():
        size = max(1, min(_MOST_IN_A_MESSAGE, len(together) // _LEAST_MESSAGES))
        messages += [together[start : start + size] for start in range(0, len(together), size)]
    return messages
