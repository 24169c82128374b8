"""Reads tables in a process of their own, so that a poisonous file costs that process and not the service."""

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import orjson
import structlog

from libs.contracts.api.artifacts import Sheet
from services.artifacts.domain.ports import Unreadable

_MODULE: Final = "services.artifacts.adapters.tables.program"
# Nothing else of the environment: a process that opens strangers' files gets no keys and no addresses.
_KEPT: Final = ("PATH", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
_log: Final = structlog.get_logger(__name__)


class TableProcesses:
    """``seconds`` of wall time and ``memory_bytes`` for each file."""

    def __init__(self, *, seconds: float, memory_bytes: int) -> None:
        self._seconds = seconds
        self._memory_bytes = memory_bytes

    async def read(self, path: Path, content_type: str) -> list[Sheet] | None:
        answer = await self._run([str(path), content_type, str(self._seconds), str(self._memory_bytes)])
        if "refused" in answer:
            raise Unreadable(answer["refused"])
        sheets = answer["sheets"]
        return None if sheets is None else [Sheet(**sheet) for sheet in sheets]

    async def _run(self, arguments: Sequence[str]) -> dict[str, Any]:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            _MODULE,
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=_environment(),
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(self._seconds):
                output, errors = await process.communicate()
        except TimeoutError:
            raise Unreadable(f"Reading the file takes more than {self._seconds:g} seconds.") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode != 0:
            _log.warning(
                "tables.process_died", status=process.returncode, last_words=errors[-300:].decode(errors="replace")
            )
            raise Unreadable("Reading the file takes too much memory, or makes the reader crash.")
        answer: dict[str, Any] = orjson.loads(output)
        return answer


def _environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return kept | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "RAYON_NUM_THREADS": "1"}
