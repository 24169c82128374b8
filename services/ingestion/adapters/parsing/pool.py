"""Parses and cuts in separate processes, so that a malicious file costs one process and not the service."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import structlog

from libs.contracts.api.knowledge import ChunkingStrategy
from libs.contracts.errors import ServiceUnavailable
from libs.fairness import FairSemaphore
from services.ingestion.adapters.metrics import PARSED_BYTES
from services.ingestion.adapters.parsing.limits import Limits
from services.ingestion.adapters.parsing.preparing import prepared, wanted
from services.ingestion.adapters.parsing.process import ParsingProcess, ProcessDied
from services.ingestion.domain.documents import Chunk, ParsedDocument
from services.ingestion.domain.knowledge_bases import IndexSettings
from services.ingestion.domain.parsing import Unparsable

_log = structlog.get_logger(__name__)
_JOBS_PER_PROCESS = 10_000
_ATTEMPTS = 2
_FULL = 0.5


class ParsingPool:
    """A DocumentReader. At most `size` jobs of a company run at once; processes start when first needed.

    One more is for a company beside it: whoever keeps all the others busy for minutes keeps nobody waiting. Companies
    that wait take turns. Cancelling a call ends the process that works on it.
    """

    def __init__(self, size: int, limits: Limits) -> None:
        self._limits = limits
        self._permits = FairSemaphore(size + 1, each=size)
        self._idle: list[ParsingProcess] = []
        self._processes: set[ParsingProcess] = set()
        self._closed = False

    async def parse(self, path: Path, name: str, content_type: str, *, company_id: str = "") -> ParsedDocument:
        _, stored = await self._run(company_id, _job(path, name, content_type))
        return ParsedDocument.from_bytes(stored)

    async def chunk(
        self,
        document: ParsedDocument,
        strategy: ChunkingStrategy,
        source: str,
        index: IndexSettings | None = None,
        *,
        company_id: str = "",
    ) -> Sequence[Chunk]:
        job = _job(strategy=strategy, source=source, index=index)
        head, body = await self._run(company_id, job, document.to_bytes())
        return _chunks(document, head, body)

    async def parse_and_chunk(
        self,
        path: Path,
        name: str,
        content_type: str,
        strategy: ChunkingStrategy,
        source: str,
        index: IndexSettings | None = None,
        *,
        company_id: str = "",
    ) -> tuple[ParsedDocument, Sequence[Chunk]]:
        head, body = await self._run(company_id, _job(path, name, content_type, strategy, source, index))
        stored = head["stored"]
        document = ParsedDocument.from_bytes(body[:stored])
        return document, _chunks(document, head, body[stored:])

    def moved_within(self, seconds: float) -> bool:
        """Whether a job began, or had a part done, in the last ``seconds``."""
        since = asyncio.get_running_loop().time() - seconds
        return any(process.moved_at > since for process in self._processes)

    async def close(self) -> None:
        """Ends all processes; calls under way raise ServiceUnavailable."""
        self._closed = True
        await asyncio.gather(*(process.kill() for process in tuple(self._processes)))
        self._processes.clear()

    async def _run(self, company_id: str, job: dict[str, Any], body: bytes = b"") -> tuple[dict[str, Any], bytes]:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                async with self._permits.acquire(company_id):
                    head, stored = await self._attempt(job, body)
            except ProcessDied as died:
                if self._closed:
                    raise _closed() from None
                # The first time the system may have killed it; the second time it was the file.
                _log.warning("parsing_process.died", attempt=attempt, reason=str(died))
                continue
            if "code" in head:
                raise Unparsable(head["code"], head["message"], retryable=head["retryable"])
            if job["path"] is not None:
                PARSED_BYTES.inc(_size(job["path"]))
            return head, stored
        raise Unparsable("crashed", "The file makes the parser crash.")

    async def _attempt(self, job: dict[str, Any], body: bytes) -> tuple[dict[str, Any], bytes]:
        process = self._idle.pop() if self._idle else None
        try:
            if process is None or not process.alive:
                process = await self._replace(process)
            head, stored = await process.call(job, body)
            if head.get("code") == "memory":
                raise process.out_of_memory()
        except BaseException:
            # An interrupted job leaves half a frame in the pipes, so the process is discarded.
            await self._discard(process)
            raise
        # Native parsers leak memory.
        if process.jobs >= _JOBS_PER_PROCESS or process.memory() > _FULL * self._limits.memory_bytes:
            await self._discard(process)
        else:
            self._idle.append(process)
        return head, stored

    async def _replace(self, old: ParsingProcess | None) -> ParsingProcess:
        if self._closed:
            raise _closed()
        await self._discard(old)
        process = await ParsingProcess.start(self._limits)
        self._processes.add(process)
        if self._closed:
            await self._discard(process)
            raise _closed()
        return process

    async def _discard(self, process: ParsingProcess | None) -> None:
        if process is not None and process in self._processes:
            self._processes.remove(process)
            await process.kill()


def _size(path: str) -> int:
    return Path(path).stat().st_size


def _closed() -> ServiceUnavailable:
    return ServiceUnavailable("Documents are no longer parsed here, the service is stopping.")


def _job(
    path: Path | None = None,
    name: str = "",
    content_type: str = "",
    strategy: ChunkingStrategy | None = None,
    source: str = "",
    index: IndexSettings | None = None,
) -> dict[str, Any]:
    return {
        "path": str(path.absolute()) if path else None,
        "name": name,
        "content_type": content_type,
        "strategy": strategy.model_dump() if strategy else None,
        "source": source,
        "wanted": wanted(index) if index else None,
    }


def _chunks(document: ParsedDocument, head: dict[str, Any], made: bytes) -> list[Chunk]:
    text = document.text
    extras = prepared(head, made)
    return [
        Chunk(chunk_id, index, text[start:end], start, end, page, row, *extra)
        for index, ((chunk_id, start, end, page, row), extra) in enumerate(zip(head["chunks"], extras, strict=True))
    ]
