"""Parses and cuts documents in sandboxed processes, so that a malicious file can only harm its own process."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import structlog

from libs import confined
from libs.confined import ConfinedPool, OutOfMemory, OutOfTime, PoolClosed, ProcessKilled, ProcessNotStarted
from libs.contracts.errors import ServiceUnavailable
from services.ingestion.adapters.metrics import PARSED_BYTES
from services.ingestion.adapters.parsing.preparing import prepared, wanted
from services.ingestion.domain.documents import Chunk, ParsedDocument
from services.ingestion.domain.knowledge_bases import IndexSettings
from services.ingestion.domain.parsing import Unparsable

_log = structlog.get_logger(__name__)
_MODULE: Final = "services.ingestion.adapters.parsing.worker"
_FILE: Final = "original"
# The worker's libraries map much more memory than they use.
_SLACK: Final = 2 * 1024**3


class ParsingPool:
    """Implements DocumentReader. A company can use up to ``size`` processes, and other companies have one more.

    ``timeout_seconds`` limits the time for a part of a file, and ``file_seconds`` the time for the whole file.
    """

    def __init__(
        self,
        size: int,
        *,
        timeout_seconds: float = 60.0,
        file_seconds: float = 3600.0,
        memory_bytes: int = 1024**3,
    ) -> None:
        self._process_limits = confined.Limits(
            seconds=timeout_seconds, job_seconds=file_seconds, memory_bytes=memory_bytes, slack_bytes=_SLACK
        )
        # Location of the OCR language data.
        environment = {name: os.environ[name] for name in ("TESSDATA_PREFIX",) if name in os.environ}
        self._processes = ConfinedPool(_MODULE, size, self._process_limits, environment)
        self.progressed_within = self._processes.progressed_within
        self.close = self._processes.close

    async def parse(self, path: Path, name: str, content_type: str, *, company_id: str = "") -> ParsedDocument:
        _, stored = await self._run(company_id, _parsing(name, content_type), path=path)
        return ParsedDocument.from_bytes(stored)

    async def chunk(
        self, document: ParsedDocument, index: IndexSettings, source: str, *, company_id: str = ""
    ) -> Sequence[Chunk]:
        head, body = await self._run(company_id, _chunking(index, source), document.to_bytes())
        return _chunks(document, head, body)

    async def parse_and_chunk(
        self, path: Path, name: str, content_type: str, index: IndexSettings, source: str, *, company_id: str = ""
    ) -> tuple[ParsedDocument, Sequence[Chunk]]:
        job = _parsing(name, content_type) | _chunking(index, source)
        head, body = await self._run(company_id, job, path=path)
        stored = head["stored"]
        document = ParsedDocument.from_bytes(body[:stored])
        return document, _chunks(document, head, body[stored:])

    async def _run(
        self, company_id: str, job: dict[str, Any], body: bytes = b"", *, path: Path | None = None
    ) -> tuple[dict[str, Any], bytes]:
        files = {} if path is None else {_FILE: path}
        try:
            head, answer = await self._processes.run(company_id, job, body, files=files)
        except PoolClosed:
            raise ServiceUnavailable(
                "The service is stopping and no longer parses documents. Try again later."
            ) from None
        except ProcessNotStarted as died:
            raise ServiceUnavailable(f"A parsing process failed to start: {died.errors}") from None
        except ProcessKilled as died:
            _log.warning("parsing_process.died", reason=str(died))
            raise Unparsable("crashed", "The parser crashed on this file.") from None
        except OutOfTime as problem:
            what, seconds = "a part of the file", self._process_limits.seconds
            if problem.whole:
                what, seconds = "the file", self._process_limits.job_seconds
            message = f"Parsing {what} took longer than {seconds:g} seconds."
            raise Unparsable("timeout", message, retryable=True) from None
        except OutOfMemory:
            most = self._process_limits.memory_bytes // 1024**2
            raise Unparsable("memory", f"Parsing the file needs more than {most:,} MB of memory.") from None
        if "code" in head:
            raise Unparsable(head["code"], head["message"], retryable=head["retryable"])
        if path is not None:
            PARSED_BYTES.inc(_size(path))
        return head, answer


def _parsing(name: str, content_type: str) -> dict[str, Any]:
    return {"file": _FILE, "name": name, "content_type": content_type}


def _chunking(index: IndexSettings, source: str) -> dict[str, Any]:
    return {"strategy": index.chunking.model_dump(), "source": source, "wanted": wanted(index)}


def _size(path: Path) -> int:
    return path.stat().st_size


def _chunks(document: ParsedDocument, head: dict[str, Any], made: bytes) -> list[Chunk]:
    text = document.text
    extras = prepared(head, made)
    return [
        Chunk(chunk_id, index, text[start:end], start, end, page, row, *extra)
        for index, ((chunk_id, start, end, page, row), extra) in enumerate(zip(head["chunks"], extras, strict=True))
    ]
