"""Reads tables in a separate process, so that a malicious file can harm only that process."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from libs.confined import JobRefused, OutOfMemory, ProcessKilled, run_confined
from libs.contracts.resources.artifacts import Sheet
from libs.documents import DocumentUnreadable

_MODULE: Final = "services.artifacts.adapters.tables.summary"
_FILE: Final = "original"
_log: Final = structlog.get_logger(__name__)


@dataclass(slots=True)
class TableProcesses:
    """Reads tables in separate processes.

    Reading a file can take up to ``seconds`` of wall-clock time and use up to ``memory_bytes`` of memory.
    """

    seconds: float
    memory_bytes: int

    async def read(self, path: Path, content_type: str) -> list[Sheet] | None:
        """Returns the file's tables, or None if it contains none. Raises ``DocumentUnreadable``."""
        job = {"path": _FILE, "content_type": content_type}
        try:
            answer = await run_confined(
                _MODULE, job, seconds=self.seconds, memory_bytes=self.memory_bytes, files={_FILE: path}
            )
        except (JobRefused, OutOfMemory) as refused:
            raise DocumentUnreadable(str(refused)) from None
        except TimeoutError:
            raise DocumentUnreadable(
                f"Reading the file took longer than {self.seconds:g} seconds. Split it into smaller files."
            ) from None
        except ProcessKilled as killed:
            _log.warning("tables.process_died", status=killed.status, last_words=killed.errors)
            raise DocumentUnreadable(
                "Reading the file took too much memory or crashed the reader. Split it into smaller files."
            ) from None
        sheets = answer["sheets"]
        return None if sheets is None else [Sheet(**sheet) for sheet in sheets]
