"""Sends errands as commands to the service that keeps files."""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from libs.contracts.commands.ingestion import CopyArtifact, DeleteFile
from libs.contracts.envelope import Envelope
from libs.contracts.errors import ServiceUnavailable
from libs.contracts.messages import Command
from libs.contracts.timestamps import format_time
from libs.eventing import BusUnavailable, IdentitySigner, Producer
from services.artifacts.domain.platform import Errand

_SECONDS: Final = 4.0
# It is sent again and again until it is answered, however long the other service is away.
_EXPIRES: Final = timedelta(days=1)


class BusErrands:
    def __init__(self, producer: Producer, signer: IdentitySigner, now: Callable[[], datetime], *, source: str) -> None:
        self._producer = producer
        self._signer = signer
        self._now = now
        self._source = source

    async def send(self, errand: Errand) -> None:
        command = _command(errand)
        now = self._now()
        envelope = Envelope(
            id=errand.command_id,
            type=command.TYPE,
            source=self._source,
            subject=errand.file_id,
            time=format_time(now),
            correlation_id=errand.correlation_id,
            company_id=errand.identity.company_id,
            expires_at=format_time(now + _EXPIRES),
            identity=self._signer.sign(errand.identity),
        )
        try:
            async with asyncio.timeout(_SECONDS):
                await (
                    await self._producer.send(
                        command.TOPIC.name, errand.correlation_id, command.encode(), envelope.headers()
                    )
                )
        except (TimeoutError, BusUnavailable) as problem:
            raise ServiceUnavailable("the message bus cannot be reached", retry_after=2) from problem


def _command(errand: Errand) -> Command:
    if errand.state == "removing":
        return DeleteFile(file_id=errand.file_id)
    return CopyArtifact(
        file_id=errand.file_id,
        artifact_id=errand.artifact_id,
        session_id=errand.session_id,
        name=errand.name,
        content_type=errand.content_type,
    )
