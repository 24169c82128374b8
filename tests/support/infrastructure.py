"""Real PostgreSQL and real Kafka for tests: one private pair per test run, started when first asked for.

`AES_TEST_POSTGRES_URL` (an administrator's URL) and `AES_TEST_KAFKA` (bootstrap servers) name running ones to
use instead; with `AES_TEST_INFRA=containers` they are containers. `python -m tests.support.infrastructure` starts a
pair, prints those two as JSON and waits.
"""

import asyncio
import atexit
import json
import os
import secrets
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit, urlunsplit

import psycopg
import psycopg.sql

from deploy.local.files import write_atomically
from deploy.local.foreground import RunningProcess, start
from deploy.local.home import Home
from deploy.local.kafka import Kafka
from deploy.local.orphans import end_orphans
from deploy.local.ports import choose_free
from deploy.local.postgres import Postgres
from deploy.local.processes import MARKER, Identity
from tests.support import containers

T = TypeVar("T")
_PREFIX = "aes-test-"
# Nothing of a test run outlives the machine, so nothing needs to reach the disk.
_FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "shared_buffers": "64MB"}


class Infrastructure:
    """A PostgreSQL and a Kafka in a temporary directory, each started at its first use."""

    def __init__(self, directory: Path | None = None) -> None:
        self._given = directory
        self._directory: Path | None = None
        self._running: dict[str, RunningProcess | containers.Running] = {}
        self._lock = threading.Lock()
        self._postgres_url = os.environ.get("AES_TEST_POSTGRES_URL")
        self._kafka = os.environ.get("AES_TEST_KAFKA")

    def postgres_url(self) -> str:
        """The administrator's URL of a server in which tests make databases."""
        with self._lock:
            if self._postgres_url is None and containers.wanted():
                self._running["postgres"], self._postgres_url = containers.postgres(secrets.token_hex(8))
            elif self._postgres_url is None:
                postgres = Postgres(
                    directory=self._root() / "postgres",
                    log=self._root() / "postgres.log",
                    port=choose_free(),
                    password=secrets.token_hex(8),
                    environment=self._environment(),
                    settings=_FAST,
                )
                self._running["postgres"] = _in_thread(lambda: start(postgres, _quiet))
                self._postgres_url = postgres.administrator_url
            return self._postgres_url

    def kafka(self) -> str:
        """Bootstrap servers of a broker that creates no topics by itself."""
        with self._lock:
            if self._kafka is None and containers.wanted():
                self._running["kafka"], self._kafka = containers.kafka()
            elif self._kafka is None:
                kafka = Kafka(
                    directory=self._root() / "kafka",
                    log=self._root() / "kafka.log",
                    cache=_shared_cache(),
                    port=(port := choose_free()),
                    controller_port=choose_free({port}),
                    environment=self._environment(),
                )
                self._running["kafka"] = _in_thread(lambda: start(kafka, _quiet))
                self._kafka = kafka.bootstrap_servers
            return self._kafka

    async def create_database(self, name: str, *, template: str = "template1") -> str:
        """An empty database, or one like the template; returns its owner's URL."""
        administrator = await asyncio.to_thread(self.postgres_url)
        await _execute(administrator, "CREATE DATABASE {} TEMPLATE {} STRATEGY wal_log", name, template)
        return urlunsplit(urlsplit(administrator)._replace(path=f"/{name}"))

    async def drop_database(self, name: str) -> None:
        await _execute(self.postgres_url(), "DROP DATABASE IF EXISTS {} WITH (FORCE)", name)

    def stop(self) -> None:
        for running in self._running.values():
            running.stop()
        self._running.clear()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)

    def _root(self) -> Path:
        if self._directory is None:
            _sweep()
            self._directory = self._given or Path(tempfile.mkdtemp(prefix=_PREFIX)).resolve()
            # PostgreSQL runs as another user when the tests run as root.
            self._directory.mkdir(exist_ok=True)
            self._directory.chmod(0o711)
            owner = Identity.of(os.getpid())
            assert owner is not None
            write_atomically(self._directory / "owner.json", json.dumps([owner.pid, owner.started]))
            atexit.register(self.stop)
        return self._directory

    def _environment(self) -> dict[str, str]:
        return {**os.environ, MARKER: str(self._root())}


shared = Infrastructure()


def _sweep() -> None:
    """End what test runs that were killed have left behind."""
    for owner in Path(tempfile.gettempdir()).resolve().glob(f"{_PREFIX}*/owner.json"):
        try:
            pid, started = json.loads(owner.read_text())
        except (OSError, ValueError):
            continue
        if Identity(pid, started).process() is None:
            end_orphans(owner.parent, owner.parent / "postgres")
            shutil.rmtree(owner.parent, ignore_errors=True)


def _shared_cache() -> Path:
    home = Home.from_environment()
    home.create()
    return home.cache


def _in_thread(make: Callable[[], Awaitable[T]]) -> T:
    """Run a coroutine to its end whether or not the caller's thread has a running loop."""

    async def main() -> T:
        return await make()

    with ThreadPoolExecutor(1) as executor:
        return executor.submit(asyncio.run, main()).result()


async def _execute(url: str, statement: str, *names: str) -> None:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute(psycopg.sql.SQL(statement).format(*map(psycopg.sql.Identifier, names)))


def _quiet(message: str) -> None:
    """Progress is of no interest in a test run."""


def main() -> None:
    interrupted = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: interrupted.set())
    infrastructure = Infrastructure(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
    facts = {"AES_TEST_POSTGRES_URL": infrastructure.postgres_url(), "AES_TEST_KAFKA": infrastructure.kafka()}
    print(json.dumps(facts), flush=True)
    interrupted.wait()
    infrastructure.stop()


if __name__ == "__main__":
    main()
