"""Ports of a search besides the engine, and the ranking that engines share."""

from collections.abc import Collection, Mapping
from typing import Protocol

from libs.contracts.api.knowledge import SearchFilters
from services.ingestion.domain.engines import FileSelection
from services.ingestion.domain.knowledge_bases import LiveIndex

SEMANTIC_SHARE = 0.55
CANDIDATES = 100
"""Minimum number of chunks that each kind of search contributes."""


class LiveIndexes(Protocol):
    async def live_index(self, company_id: str, knowledge_base_id: str) -> LiveIndex | None:
        """The index to search, with its settings; None for an unknown knowledge base."""


class SearchableFiles(Protocol):
    """Committed files with their current names, tags, collections and statuses."""

    async def select(self, company_id: str, index_id: str, filters: SearchFilters) -> FileSelection:
        """Active files that match: of any of the collections, any of the files, with any of the tags."""

    async def names(self, company_id: str, file_ids: Collection[str]) -> Mapping[str, str]:
        """Names of the active files among these; deleted and inactive ones are left out."""


def candidates(top_k: int) -> int:
    return max(CANDIDATES, 3 * top_k)


def combined(cosine: float, keyword: float, best_keyword: float) -> float:
    """0 to 1. `best_keyword`: the highest keyword score of the query, 0 when no chunk has any of its words.

    Both scores are kept as they are, not as ranks: on three labelled collections reciprocal ranks were worse
    than keywords alone on two, this is better than either on all (see docs/decisions).
    """
    by_words = keyword / best_keyword if best_keyword > 0 else 0.0
    return SEMANTIC_SHARE * min(max(cosine, 0.0), 1.0) + (1 - SEMANTIC_SHARE) * by_words
