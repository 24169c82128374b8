"""Drops indexes pending deletion: replaced ones after a grace period, those of deleted knowledge bases at once."""

from dataclasses import dataclass
from typing import Final

import structlog

from services.ingestion.domain.engines import EngineUnavailable
from services.ingestion.domain.ports.knowledge_bases import Engines, IndexDeletion

_log: Final = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class DropIndexes:
    deletion: IndexDeletion
    engines: Engines

    async def __call__(self) -> None:
        """An index that its engine does not drop now is tried again by the next call."""
        for index_id, engine in await self.deletion.droppable():
            await self.deletion.mark_for_deletion(index_id)
            if engine not in self.engines:
                _log.error("index.engine_missing", index_id=index_id, engine=engine)
                continue
            try:
                await self.engines[engine].drop_index(index_id)
            except EngineUnavailable as problem:
                _log.warning("index.not_dropped", index_id=index_id, problem=str(problem))
                continue
            except Exception:
                # Others are not to wait for this one.
                _log.exception("index.not_dropped", index_id=index_id)
                continue
            await self.deletion.dropped(index_id)
            _log.info("index.dropped", index_id=index_id)
        await self.deletion.finalize_deletion()
