"""Measures the system's resources for sizing: `python -m benchmarks.footprint`, three minutes on a quiet machine.

Starts a stack of its own beside the one in use, lets it stand idle, work off turns at 16 busy sessions and ingest
files, and prints what each part took of processor, memory, disk and connections. Then each role by itself, idle.
`--idle 300` measures nothing but the stack at rest, for as many seconds.
"""

import argparse
import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import httpx
import psutil
import psycopg

from benchmarks.children import Children
from benchmarks.cpu import cpu_seconds
from benchmarks.stack import BenchmarkStack, benchmark_home, remove, whole_stack
from deploy.local.credentials import Credentials
from deploy.local.home import Home
from deploy.local.services import DATABASES
from deploy.local.stack import postgres_of

_IDLE_SECONDS: Final = 60
# What follows a start is no rest: compilers, first plans, groups that find each other.
_IDLE_SETTLE_SECONDS: Final = 30
_SESSIONS: Final = 16
_TURNS: Final = 4000
_FILES: Final = 1000
_FILE_BYTES: Final = 8_000
_SETTLE_SECONDS: Final = 8
_ROLES: Final = (
    *(("gateway", "all"), ("registry", "api"), ("registry", "worker"), ("runtime", "api"), ("runtime", "worker")),
    *(("ingestion", "api"), ("ingestion", "worker"), ("ingestion", "streams"), ("artifacts", "api")),
    ("artifacts", "worker"),
)


class Meter:
    """Reads a stack's memory, disk use and connections from outside."""

    def __init__(self, stack: BenchmarkStack, home: Home) -> None:
        self._stack, self._home = stack, home
        self._postgres = postgres_of(home, Credentials.load_or_create(home.credentials_file))
        self._peak: dict[str, float] = {}

    def cpu(self) -> dict[str, float]:
        return cpu_seconds(self._stack.processes)

    def megabytes(self) -> dict[str, float]:
        """Resident, each process with its children; what PostgreSQL's processes share counts for each of them."""
        return {name: _resident(process) for name, process in self._stack.processes.items()}

    def disk(self) -> dict[str, int]:
        """Bytes of each database, of Kafka's logs and of objects."""
        with psycopg.connect(self._postgres.administrator_url, autocommit=True) as connection:
            connection.execute("CHECKPOINT")
            rows = connection.execute(
                "SELECT datname, pg_database_size(datname) FROM pg_database WHERE datname = ANY(%s)", ([*DATABASES],)
            ).fetchall()
        found = {f"database of {name}": int(size) for name, size in rows}
        return {**found, "kafka": _bytes_below(self._home.kafka), "objects": _bytes_below(self._home.objects)}

    def transactions(self) -> dict[str, int]:
        """Committed so far in each database. A statement outside of a transaction is one."""
        with psycopg.connect(self._postgres.administrator_url, autocommit=True) as connection:
            rows = connection.execute(
                "SELECT datname, xact_commit FROM pg_stat_database WHERE datname = ANY(%s)", ([*DATABASES],)
            ).fetchall()
        return {str(name): int(count) for name, count in rows}

    def connections(self) -> dict[str, int]:
        with psycopg.connect(self._postgres.administrator_url, autocommit=True) as connection:
            rows = connection.execute(
                "SELECT datname, count(*) FROM pg_stat_activity WHERE datname = ANY(%s) GROUP BY 1", ([*DATABASES],)
            ).fetchall()
        return {str(name): int(count) for name, count in rows}

    @asynccontextmanager
    async def measured(self, title: str, units: int) -> AsyncIterator[None]:
        """Print what the block took, per ``units`` and at its highest."""
        disk, cpu, started = self.disk(), self.cpu(), time.monotonic()
        highest = asyncio.create_task(self._watch())
        yield
        seconds = time.monotonic() - started
        await asyncio.sleep(_SETTLE_SECONDS)
        highest.cancel()
        spent, after = self.cpu(), self.disk()
        _print(
            title,
            {
                "seconds": round(seconds, 1),
                "per_second": round(units / seconds, 1),
                "cpu_ms_each": {name: round((spent[name] - cpu[name]) * 1000 / units, 2) for name in cpu},
                "highest_megabytes": {name: round(most) for name, most in self._peak.items()},
                "bytes_each": {name: round((after[name] - disk[name]) / units) for name in after},
                "connections": self.connections(),
            },
        )

    async def _watch(self) -> None:
        self._peak = self.megabytes()
        while True:
            await asyncio.sleep(0.5)
            self._peak = {name: max(most, self._peak[name]) for name, most in self.megabytes().items()}


async def main(idle: int | None) -> None:
    """``idle``: seconds for which the stack is measured at rest, and nothing else; None for everything."""
    home = benchmark_home("footprint")
    # A marker of its own: the stack ends processes with its own marker that an earlier run has left.
    children = Children(f"{home.root}-footprint", home.logs / "footprint.log")
    children.end_left_behind()
    remove(home)
    home.create()
    try:
        async with children.model_stub() as (_, url), whole_stack(home, url) as stack:
            meter = Meter(stack, home)
            await _idle(meter, idle or _IDLE_SECONDS)
            if idle:
                return
            headers = {"x-api-key": stack.api_key}
            address = f"http://127.0.0.1:{stack.gateway_port}/api/v1"
            async with httpx.AsyncClient(base_url=address, headers=headers, timeout=120, trust_env=False) as client:
                async with meter.measured(f"{_TURNS} turns", _TURNS):
                    await asyncio.gather(*(_converse(client, _TURNS // _SESSIONS) for _ in range(_SESSIONS)))
                async with meter.measured(f"{_FILES} files of {_FILE_BYTES} bytes", _FILES):
                    await _ingest(client)
            await _roles(stack, children)
    finally:
        remove(home)


async def _idle(meter: Meter, seconds: int) -> None:
    await asyncio.sleep(_IDLE_SETTLE_SECONDS)
    before, transactions = meter.cpu(), meter.transactions()
    await asyncio.sleep(seconds)
    after, committed = meter.cpu(), meter.transactions()
    percent = {name: round(100 * (after[name] - before[name]) / seconds, 2) for name in before}
    figures = {
        "percent_of_a_core": {**percent, "sum": round(sum(percent.values()), 2)},
        "transactions_per_second": {
            name: round((count - transactions[name]) / seconds, 2) for name, count in committed.items()
        },
        "megabytes": {name: round(size) for name, size in meter.megabytes().items()},
        "connections": meter.connections(),
    }
    _print("idle", figures)


async def _converse(client: httpx.AsyncClient, turns: int) -> None:
    body = {"name": "Sizing", "agent_type": "llm_agent", "llm_config": {"model": "openai:stub"}}
    for first in range(0, turns, 20):
        session = (await client.post("/sessions/", json=body)).json()["session_id"]
        for number in range(first, min(first + 20, turns)):
            reply = await client.post(f"/runtime/{session}/execute/", json={"content": f"Turn {number}: well?"})
            assert reply.status_code == 200, reply.text


async def _ingest(client: httpx.AsyncClient) -> None:
    ids: list[str] = []
    for batch in _batches():
        files = [("file", (f"file-{number}.md", _text(number))) for number in batch]
        reply = await client.post("/files/", files=files)
        reply.raise_for_status()
        ids += [file["id"] for file in reply.json()["files"]]
    made = await client.post("/knowledge-bases/", json={"name": "Sizing", "file_ids": ids})
    made.raise_for_status()
    path = f"/knowledge-bases/{made.json()['id']}/"
    while (await client.get(path)).json()["status"] not in ("completed", "failed"):
        await asyncio.sleep(0.5)


def _batches() -> list[range]:
    return [range(first, first + 100) for first in range(0, _FILES, 100)]


def _text(number: int) -> bytes:
    words = itertools.cycle(f"word{(number * 31 + place * 17) % 5000}" for place in range(997))
    lines = (" ".join(itertools.islice(words, 12)) + ".\n\n" for _ in itertools.count())
    text = f"# File {number}\n\n"
    for line in lines:
        if len(text) >= _FILE_BYTES:
            return text.encode()
        text += line
    raise AssertionError("there are always more lines")


async def _roles(stack: BenchmarkStack, children: Children) -> None:
    """Measures each role in a process of its own, idle."""
    found = {}
    for service, role in _ROLES:
        environment = _environment(stack.processes, service)
        async with children.started([f"services.{service}", role], environment) as process:
            await asyncio.sleep(_SETTLE_SECONDS)
            found[f"{service} {role}"] = round(_resident(psutil.Process(process.pid)))
    _print("roles, idle, megabytes", found)


def _environment(processes: Mapping[str, psutil.Process], service: str) -> dict[str, str]:
    given = processes[service if service in processes else f"{service}-all"].environ()
    own = {name: value for name, value in given.items() if name.startswith(("AES_", "OPENAI_"))}
    return {**own, f"AES_{service.upper()}_PORT": "0", "AES_INGESTION_STREAMS_PORT": "0"}


def _resident(process: psutil.Process) -> float:
    total = 0.0
    for member in [process, *process.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            total += float(member.memory_info().rss)
    return total / 1e6


def _bytes_below(directory: Path) -> int:
    # Blocks, since Kafka's indexes are mostly holes.
    return sum(file.stat().st_blocks * 512 for file in directory.rglob("*") if file.is_file())


def _print(title: str, figures: dict[str, Any]) -> None:
    print(json.dumps({title: figures}, indent=1), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser("python -m benchmarks.footprint", description=__doc__)
    parser.add_argument("--idle", type=int, metavar="SECONDS", help="measure nothing but the stack at rest")
    asyncio.run(main(parser.parse_args().idle))
