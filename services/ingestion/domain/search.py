"""Ports of a search besides the engine."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from libs.contracts.api.knowledge import SearchFilters
from services.ingestion.domain.engines import FileSelection
from services.ingestion.domain.knowledge_bases import LiveIndex


class LiveIndexes(Protocol):
    async def live_index(self, company_id: str, knowledge_base_id: str) -> LiveIndex | None:
        """The index to search, with its settings; None for an unknown knowledge base."""
        ...


class SearchableFiles(Protocol):
    """Committed files with their current names, tags, collections and statuses."""

    async def select(self, company_id: str, index_id: str, filters: SearchFilters) -> FileSelection:
        """Active files that match: of any of the collections, any of the files, with any of the tags."""
        ...

    async def names(self, company_id: str, file_ids: Collection[str]) -> Mapping[str, str]:
        """Names of the active files among these; deleted and inactive ones are left out."""
        ...
