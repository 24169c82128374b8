"""Works off documents of sessions, for as long as the process runs."""

import asyncio
from typing import Final

import structlog

from libs.contracts.errors import ServiceUnavailable
from services.ingestion.domain.engines import EngineConflict, EngineUnavailable
from services.ingestion.use_cases.index_artifacts import ArtifactIndexing

_LOOK_SECONDS: Final = 0.5
_log: Final = structlog.get_logger(__name__)


async def work_off(indexing: ArtifactIndexing) -> None:
    """Documents that wait first, then what is left of deleted ones."""
    while True:
        if not await indexing.work() and not await _removed(indexing):
            await asyncio.sleep(_LOOK_SECONDS)


async def _removed(indexing: ArtifactIndexing) -> int:
    try:
        return await indexing.remove_deleted()
    except (ServiceUnavailable, EngineConflict, EngineUnavailable) as problem:
        _log.warning("artifacts.removal_put_off", problem=repr(problem))
        return 0
