"""Announces work on ``ingestion-work``."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import structlog

from libs.contracts.envelope import Envelope
from libs.contracts.identifiers import new_id
from libs.contracts.timestamps import format_time
from libs.contracts.topics import INGESTION_WORK
from libs.eventing import BusUnavailable, Producer
from services.ingestion.domain.runs import Due, RunKey, encode_work

_log = structlog.get_logger(__name__)
_TYPE: Final = "aes.ingestion.work.v1"
_SECONDS: Final = 10.0


class BusWorkSender:
    def __init__(self, producer: Producer, *, source: str) -> None:
        self._producer = producer
        self._source = source

    async def send(self, work: Sequence[Due]) -> list[Due]:
        sent: list[asyncio.Future[None]] = []
        try:
            for due in work:
                value, headers = encode_work(due.key), self._envelope(due).headers()
                sent.append(await self._producer.send(INGESTION_WORK.name, due.message_key, value, headers))
        except BusUnavailable as problem:
            _log.warning("work.bus_unavailable", problem=str(problem))
        if sent:
            await asyncio.wait(sent, timeout=_SECONDS)
        arrived = [future.done() and future.exception() is None for future in sent]
        return [
            due for due, there in zip(work, arrived + [False] * (len(work) - len(arrived)), strict=True) if not there
        ]

    def _envelope(self, due: Due) -> Envelope:
        subject = due.key.run_id if isinstance(due.key, RunKey) else due.key.file_id
        return Envelope(
            id=new_id(),
            type=_TYPE,
            source=self._source,
            subject=subject,
            time=format_time(datetime.now(UTC)),
            correlation_id=due.correlation_id,
            company_id=due.company_id,
        )
