"""Real MCP servers as processes: started, killed, started again at the same port."""

import json
import multiprocessing
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, Final

from deploy.local.ports import choose_free
from tests.support.waiting import until, wait_until

# Each is forked from a process that has imported the SDK, which takes a second of CPU.
_PROCESSES: Final = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(["tests.integration.runtime.toolsets.mcp_server"])


class McpServerProcess:
    def __init__(self, directory: Path, mode: str = "modern") -> None:
        self.mode = mode
        self.journal = directory / "calls"
        self.port = choose_free()
        self._process: ForkServerProcess | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    @property
    def calls(self) -> list[dict[str, Any]]:
        """The calls that reached a tool, in their order."""
        return [json.loads(line) for line in self.journal.read_text().splitlines()] if self.journal.exists() else []

    def start(self, mode: str | None = None) -> None:
        self._process = _PROCESSES.Process(target=_serve, args=(self.port, self.journal, mode or self.mode))
        self._process.start()
        wait_until(self._answers, "the server answers")

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.join()

    async def called(self, count: int) -> None:
        await until(lambda: len(self.calls) >= count, f"{count} calls have reached a tool")

    def _answers(self) -> bool:
        assert self._process.is_alive(), "the server ended by itself"
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


def _serve(port: int, journal: Path, mode: str) -> None:
    from tests.integration.runtime.toolsets.mcp_server import serve

    serve(port, journal, mode)


@contextmanager
def mcp_server(directory: Path, mode: str = "modern") -> Iterator[McpServerProcess]:
    process = McpServerProcess(directory, mode)
    try:
        process.start()
        yield process
    finally:
        process.kill()
