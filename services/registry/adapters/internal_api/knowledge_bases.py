"""Asks the ingestion service whether knowledge bases exist."""

import asyncio
from collections.abc import Sequence
from typing import Final

import structlog

from libs.contracts.errors import ServiceUnavailable
from libs.contracts.identifiers import is_id
from libs.contracts.identity import Identity
from libs.service_defaults import UpstreamClient
from services.registry.domain.ports import KnowledgeBaseCheck

_AT_ONCE: Final = 8
# Must be well below the timeout of the registry's callers, so that the warning still reaches them.
_DEADLINE_SECONDS: Final = 2.0

_log = structlog.get_logger(__name__)


class HttpKnowledgeBases:
    """Checks whether knowledge bases exist.

    Results aren't cached, since agents are often validated right after a knowledge base was created or deleted.
    """

    def __init__(self, calls: UpstreamClient) -> None:
        self._calls = calls

    @property
    def available(self) -> bool:
        return self._calls.installed("ingestion")

    async def check(self, caller: Identity, ids: Sequence[str]) -> KnowledgeBaseCheck:
        slots, silent = asyncio.Semaphore(_AT_ONCE), asyncio.Event()

        async def exists(identifier: str) -> bool | None:
            async with slots:
                if silent.is_set():  # a single timeout shows that ingestion is down
                    return None
                try:
                    return await self._exists(caller, identifier)
                except ServiceUnavailable:
                    silent.set()
                    return None

        answers = dict(zip(ids, await asyncio.gather(*map(exists, ids)), strict=True))
        return KnowledgeBaseCheck(
            missing=frozenset(identifier for identifier, found in answers.items() if found is False),
            unchecked=frozenset(identifier for identifier, found in answers.items() if found is None),
        )

    async def _exists(self, caller: Identity, identifier: str) -> bool | None:
        if not is_id(identifier):
            return False
        path = f"/internal/knowledge-bases/{identifier}"
        response = await self._calls.get("ingestion", path, caller, deadline=_DEADLINE_SECONDS)
        if response.status in (200, 404):
            return response.status == 200
        _log.warning("knowledge_base_check.refused", status=response.status)
        return None
