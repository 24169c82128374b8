"""Send what is to be done by the service that keeps files, until it has answered."""

from typing import Final

import structlog

from libs.contracts.errors import ServiceUnavailable
from services.artifacts.domain.platform import Errands, ErrandSender

_AT_ONCE: Final = 100
_AGAIN_SECONDS: Final = 30.0
_log: Final = structlog.get_logger(__name__)


async def run_errands(errands: Errands, sender: ErrandSender) -> int:
    """Returns how many were sent. One that was sent before is carried out once: its command has the same id."""
    sent = []
    for errand in await errands.due(_AGAIN_SECONDS, _AT_ONCE):
        try:
            await sender.send(errand)
        except ServiceUnavailable as problem:
            _log.warning("errand.not_sent", artifact_id=errand.artifact_id, problem=problem.message)
            break
        sent.append(errand.command_id)
    await errands.sent(sent)
    return len(sent)
