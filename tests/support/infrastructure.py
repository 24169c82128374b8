"""Real PostgreSQL and real Kafka for tests: one private pair per test run, started when first asked for.

`AES_TEST_POSTGRES_URL` (an administrator's URL) and `AES_TEST_KAFKA` (bootstrap servers) name running ones to
use instead; with `AES_TEST_INFRA=containers` they are containers. `python -m tests.support.infrastructure` starts a
pair, prints those two as JSON and waits.
"""

import asyncio
import json
import os
import secrets
import signal
import sys
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import urlsplit, urlunsplit

import psycopg
import psycopg.sql

from deploy.local.foreground import start
from deploy.local.home import Home
from deploy.local.kafka import Kafka
from deploy.local.ports import choose_free
from deploy.local.postgres import Postgres
from deploy.local.processes import MARKER
from libs.persistence import migrate
from tests.support import containers
from tests.support.run_directory import RunDirectory

T = TypeVar("T")
_GIVEN: Final = {"postgres": "AES_TEST_POSTGRES_URL", "kafka": "AES_TEST_KAFKA"}
_FAST: Final = {
    # Nothing of a test run outlives the machine, so nothing needs to reach the disk.
    **{"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "shared_buffers": "64MB"},
    # Several workers at once, each with the pools of several services.
    "max_connections": "300",
}


class Infrastructure:
    """A PostgreSQL and a Kafka, each started at its first use by any process of the run and used by all of them."""

    def __init__(self, run: RunDirectory | None = None) -> None:
        self._given = run
        self._lock = threading.Lock()
        self._known = {name: url for name, variable in _GIVEN.items() if (url := os.environ.get(variable))}

    def postgres_url(self) -> str:
        """The administrator's URL of a server in which tests make databases."""
        return self._server("postgres", self._start_postgres)

    def kafka(self) -> str:
        """Bootstrap servers of a broker that creates no topics by itself."""
        return self._server("kafka", self._start_kafka)

    async def create_database(self, name: str, *, template: str = "template1") -> str:
        """An empty database, or one like the template; returns its owner's URL."""
        administrator = await asyncio.to_thread(self.postgres_url)
        # Less than half the CPU of the usual way, which writes every page of the template to the log.
        await _execute(administrator, "CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy", name, template)
        return urlunsplit(urlsplit(administrator)._replace(path=f"/{name}"))

    async def create_migrated(self, name: str, migrations: Path) -> str:
        """A database with the newest schema, copied from one that is migrated once per run."""
        return await self.create_database(name, template=await asyncio.to_thread(self._template, migrations))

    async def drop_database(self, name: str) -> None:
        await _execute(self.postgres_url(), "DROP DATABASE IF EXISTS {} WITH (FORCE)", name)

    def end(self) -> None:
        """Ends the servers of the run, from its owner; leaves nothing in servers that outlive it."""
        if not self._run.is_owned_here():
            return
        if _GIVEN["postgres"] in os.environ:
            with self._run.facts() as facts:
                templates = facts.pop("templates", {})
            for name in templates.values():
                _in_thread(lambda name=name: self.drop_database(name))
        self._run.end()

    @property
    def _run(self) -> RunDirectory:
        return self._given or RunDirectory.current()

    def _server(self, name: str, start_server: Callable[[], str]) -> str:
        with self._lock:
            if name not in self._known:
                self._run.guard()
                with self._run.facts() as facts:
                    if name not in facts:
                        facts[name] = start_server()
                    self._known[name] = facts[name]
            return self._known[name]

    def _start_postgres(self) -> str:
        if containers.wanted():
            return containers.postgres(secrets.token_hex(8))[1]
        postgres = Postgres(
            directory=self._run.path / "postgres",
            log=self._run.path / "postgres.log",
            port=choose_free(),
            password=secrets.token_hex(8),
            environment=self._environment(),
            settings=_FAST,
        )
        _in_thread(lambda: start(postgres, _quiet))
        return postgres.administrator_url

    def _start_kafka(self) -> str:
        if containers.wanted():
            return containers.kafka()[1]
        kafka = Kafka(
            directory=self._run.path / "kafka",
            log=self._run.path / "kafka.log",
            cache=_shared_cache(),
            port=(port := choose_free()),
            controller_port=choose_free({port}),
            environment=self._environment(),
        )
        _in_thread(lambda: start(kafka, _quiet))
        return kafka.bootstrap_servers

    def _template(self, migrations: Path) -> str:
        """The name of a migrated database to copy, to which nobody may connect."""
        self.postgres_url()
        with self._run.facts() as facts:
            templates = facts.setdefault("templates", {})
            if str(migrations) not in templates:
                name = f"template_{secrets.token_hex(6)}"
                migrate(_in_thread(lambda: self.create_database(name)), migrations)
                templates[str(migrations)] = name
            return str(templates[str(migrations)])

    def _environment(self) -> dict[str, str]:
        return {**os.environ, MARKER: str(self._run.path)}


shared = Infrastructure()


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
    infrastructure = Infrastructure(RunDirectory.create(Path(sys.argv[1]) if len(sys.argv) > 1 else None))
    facts = {"AES_TEST_POSTGRES_URL": infrastructure.postgres_url(), "AES_TEST_KAFKA": infrastructure.kafka()}
    print(json.dumps(facts), flush=True)
    interrupted.wait()
    infrastructure.end()


if __name__ == "__main__":
    main()
