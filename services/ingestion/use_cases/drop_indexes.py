"""Drops indexes that nobody wants any more: replaced ones after a grace, those of deleted knowledge bases at once."""

from __future__ import annotations

import structlog

from services.ingestion.domain.engines import EngineUnavailable
from services.ingestion.domain.ports.knowledge_bases import Engines, IndexDeletion

_log = structlog.get_logger(__name__)


async def drop_indexes(index_deletion: IndexDeletion, engines: Engines) -> None:
    """What an engine does not drop now, it is asked to drop the next time."""
    for index_id, engine in await index_deletion.droppable():
        await index_deletion.mark_for_deletion(index_id)
        if engine not in engines:
            _log.error("index.engine_missing", index_id=index_id, engine=engine)
            continue
        try:
            await engines[engine].drop_index(index_id)
        except EngineUnavailable as problem:
            _log.warning("index.not_dropped", index_id=index_id, problem=str(problem))
            continue
        await index_deletion.dropped(index_id)
        _log.info("index.dropped", index_id=index_id)
    await index_deletion.bury()
