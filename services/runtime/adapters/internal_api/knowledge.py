"""Searches knowledge bases through the ingestion service's internal API."""

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import fields
from urllib.parse import quote

import orjson
import structlog

from libs.contracts.errors import ServiceUnavailable
from libs.contracts.identity import Identity
from libs.contracts.resources.knowledge_bases import SearchReply
from libs.retry import CircuitBreaker, RetryPolicy
from libs.service_defaults import UpstreamClient, UpstreamResponse
from services.runtime.domain.conversation import Citation
from services.runtime.domain.knowledge import KnowledgeBaseRef, Retrieved

_log = structlog.get_logger(__name__)
_LONGEST_QUERY = 10_000
_DEADLINE_SECONDS = 8.0
_RETRIES = RetryPolicy(longest=1.0, give_up_after=5.0)
_FIELDS = tuple(field.name for field in fields(Citation))


class HttpKnowledge:
    """Implements KnowledgeRetriever. Searches all of an agent's knowledge bases in parallel."""

    def __init__(self, calls: UpstreamClient, breaker: CircuitBreaker | None = None) -> None:
        self._calls = calls
        self._breaker = breaker or CircuitBreaker(_RETRIES)

    async def retrieve(self, query: str, knowledge_bases: Sequence[KnowledgeBaseRef], caller: Identity) -> Retrieved:
        query = query.strip()[:_LONGEST_QUERY]
        if not query:
            return Retrieved()
        searches = await asyncio.gather(*(self._search(query, searched, caller) for searched in knowledge_bases))
        chunks = dict.fromkeys(passage for search in searches for passage in search.chunks)
        return Retrieved(
            tuple(sorted(chunks, key=lambda passage: passage.score or 0.0, reverse=True)),
            tuple(dict.fromkeys(warning for search in searches for warning in search.warnings)),
        )

    async def _search(self, query: str, searched: KnowledgeBaseRef, caller: Identity) -> Retrieved:
        options = {"top_k": searched.top_k, "mode": searched.mode, "min_score": searched.min_score}
        body = {"query": query, **{name: value for name, value in options.items() if value is not None}}
        path = f"/internal/knowledge-bases/{quote(searched.id, safe='')}/search"

        def ask() -> Awaitable[UpstreamResponse]:
            return self._calls.request(
                "POST", "ingestion", path, caller, body=orjson.dumps(body), deadline=_DEADLINE_SECONDS
            )

        try:
            answer = await self._breaker.run(ask, on=ServiceUnavailable)
        except ServiceUnavailable as problem:
            return _failed(searched, str(problem))
        if answer.status == 404:
            return Retrieved(warnings=(f"the knowledge base {searched.id} no longer exists and wasn't searched",))
        if answer.status != 200:
            return _failed(searched, f"status {answer.status}")
        reply = SearchReply.model_validate_json(answer.body)
        return Retrieved(tuple(Citation(**result.model_dump(include=set(_FIELDS))) for result in reply.results))


def _failed(searched: KnowledgeBaseRef, problem: str) -> Retrieved:
    _log.warning("knowledge.not_searched", knowledge_base_id=searched.id, problem=problem)
    return Retrieved(warnings=(f"the knowledge base {searched.id} couldn't be searched",))
