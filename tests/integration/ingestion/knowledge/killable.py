"""Servers of a test's own, killed without warning and started again where they were."""

from __future__ import annotations

import asyncio
import os
import shutil
from itertools import count
from math import inf
from pathlib import Path

from deploy.local.errors import ProcessFailed
from deploy.local.foreground import RunningProcess, start
from deploy.local.home import Home
from deploy.local.kafka import Kafka
from deploy.local.managed_process import ManagedProcess
from deploy.local.ports import choose_free
from deploy.local.postgres import Postgres
from deploy.local.processes import MARKER
from tests.servers.weaviate import WeaviateServer
from tests.support.waiting import until

_TRIES = 30


class Killable:
    """One of them. What it had stored stays, unless it is taken back to what was kept of it."""

    def __init__(self, part: ManagedProcess, data: Path) -> None:
        self._part = part
        self._data = data
        self._running: RunningProcess | None = None

    async def start(self) -> None:
        """Processes of a server that was killed may hold on to what the next one needs for a moment."""
        tries = count(1)

        async def started() -> RunningProcess | None:
            try:
                return await start(self._part, lambda _: None)
            except ProcessFailed:
                if next(tries) == _TRIES:
                    raise
                return None

        self._running = await until(started, within=inf, pause=0.5)

    async def kill(self) -> None:
        self._running.process.kill()
        await asyncio.to_thread(self._running.process.wait)

    async def stop(self) -> None:
        if self._running is not None:
            await asyncio.to_thread(self._running.stop)

    async def keep(self) -> None:
        """Remember what is stored now; only while it does not run."""
        await asyncio.to_thread(shutil.copytree, self._data, self._kept)

    async def lose(self) -> None:
        """Deletes the stored data; only while the server does not run."""
        await asyncio.to_thread(shutil.rmtree, self._data)

    async def take_back(self) -> None:
        """To what was kept: what was stored since is lost, as with a disk that had not written it yet."""
        await asyncio.to_thread(shutil.rmtree, self._data)
        await asyncio.to_thread(shutil.copytree, self._kept, self._data)

    @property
    def _kept(self) -> Path:
        return self._data.with_name(f"{self._data.name}-kept")


def kafka_of(directory: Path) -> tuple[Kafka, Killable]:
    home = Home.from_environment()
    home.create()
    port = choose_free()
    kafka = Kafka(
        directory=directory / "kafka",
        log=directory / "kafka.log",
        cache=home.cache,
        port=port,
        controller_port=choose_free({port}),
        environment=_environment(directory),
    )
    return kafka, Killable(kafka, kafka.directory / "data")


def postgres_of(directory: Path) -> tuple[Postgres, Killable]:
    """Durable as in production, but for the disk's own cache, which a killed process does not lose."""
    postgres = Postgres(
        directory=directory / "postgres",
        log=directory / "postgres.log",
        port=choose_free(),
        password="of-tests-only",
        environment=_environment(directory),
        settings={"fsync": "off", "shared_buffers": "64MB"},
    )
    return postgres, Killable(postgres, postgres.directory / "data")


def weaviate_of(directory: Path) -> tuple[WeaviateServer, Killable]:
    server = WeaviateServer(directory / "weaviate", _environment(directory))
    return server, Killable(server, server.directory / "data")


def _environment(directory: Path) -> dict[str, str]:
    return {**os.environ, MARKER: str(directory)}
