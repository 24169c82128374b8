"""Runs the measured ingestion service: an api process and workers, on a broker and a database of its own."""

from __future__ import annotations

import asyncio
import secrets
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import psutil

from benchmarks.children import Children
from benchmarks.ingest.corpus import CHUNKING
from deploy.local.ports import choose_free
from deploy.local.probes import answers_ok
from libs.contracts.commands.ingestion import (
    AddCollectionFiles,
    CreateCollection,
    CreateKnowledgeBase,
)
from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity, Scope
from libs.contracts.messages import Command, Envelope
from libs.contracts.timestamps import format_time
from libs.eventing import IdentitySigner, KafkaBus, Producer, create_topics

_UPLOADED_AT_ONCE = 50
_COLLECTED_AT_ONCE = 1000
_LONGEST_SECONDS = 3600.0
_CALLER = Identity(
    company_id="bench", company_name="Bench", user_id="bench", user_name="Bench", key_id="bench",
    scopes=frozenset(Scope),
)  # fmt: skip


class IngestionFailed(Exception):
    """The measured ingestion failed."""


@dataclass(frozen=True)
class Ingested:
    seconds: float
    files: int
    failed: int


class IngestionClient:
    """Calls the service as the gateway does: bytes and reads over HTTP, commands over the bus."""

    def __init__(self, session: aiohttp.ClientSession, producer: Producer, signer: IdentitySigner, url: str) -> None:
        self._session, self._producer, self._signer, self._url = session, producer, signer, url

    async def upload(self, files: Sequence[Path]) -> list[str]:
        """Uploads files; returns the ids of the accepted ones."""
        ids: list[str] = []
        for start in range(0, len(files), _UPLOADED_AT_ONCE):
            ids += await self._upload_some(files[start : start + _UPLOADED_AT_ONCE])
        return ids

    async def collect(self, file_ids: Sequence[str]) -> str:
        """Creates a collection of the files."""
        collection_id = new_id()
        await self._send(CreateCollection(collection_id=collection_id, name="Bench"))
        await self._until(f"/internal/collections/{collection_id}", lambda _: True)
        for start in range(0, len(file_ids), _COLLECTED_AT_ONCE):
            some = list(file_ids[start : start + _COLLECTED_AT_ONCE])
            await self._send(AddCollectionFiles(collection_id=collection_id, file_ids=some))
        await self._until(
            f"/internal/collections/{collection_id}", lambda body: body["data_source_count"] == len(file_ids)
        )
        return collection_id

    async def ingest(self, collection_id: str) -> Ingested:
        """Make a knowledge base and wait until its ingestion has ended."""
        knowledge_base_id = new_id()
        chunking = CHUNKING.model_dump()
        settings = {"name": "Bench", "collection_ids": [collection_id], "chunking_strategy": chunking}
        began = time.perf_counter()
        await self._send(CreateKnowledgeBase(knowledge_base_id=knowledge_base_id, settings=settings))
        path = f"/internal/knowledge-bases/{knowledge_base_id}/datasources?limit=1"
        await self._until(path, lambda _: True)
        # The whole record of thousands of files is long: it is read now and then, and tells when the end was.
        body = await self._until(
            f"/internal/knowledge-bases/{knowledge_base_id}",
            lambda body: body["status"] in ("completed", "failed"),
            pause=2.0,
        )
        ended = datetime.fromisoformat(body["updated_at"].replace("Z", "+00:00"))
        late = (datetime.now(UTC) - ended).total_seconds()
        seconds = time.perf_counter() - began - late
        return Ingested(seconds, body["datasource_count"], len(body["failed_datasources"]))

    async def _upload_some(self, files: Sequence[Path]) -> list[str]:
        form = aiohttp.FormData()
        for path in files:
            form.add_field("file", await asyncio.to_thread(path.read_bytes), filename=path.name)
        async with self._session.post(f"{self._url}/internal/files", data=form, headers=self._headers()) as response:
            body = await response.json()
        if response.status == 201:
            return [each["id"] for each in body.get("files", [body])]
        if len(files) == 1:
            return []
        # A refused file would refuse the whole request.
        return [file_id for path in files for file_id in await self._upload_some([path])]

    async def _until(self, path: str, condition: Any, pause: float = 0.1) -> dict[str, Any]:
        deadline = time.monotonic() + _LONGEST_SECONDS
        while time.monotonic() < deadline:
            async with self._session.get(f"{self._url}{path}", headers=self._headers()) as response:
                body: dict[str, Any] = await response.json()
                if response.status == 200 and condition(body):
                    return body
            await asyncio.sleep(pause)
        raise IngestionFailed(f"{path} did not come to what was expected in an hour")

    async def _send(self, command: Command) -> None:
        now, command_id = datetime.now(UTC), new_id()
        envelope = Envelope(
            id=command_id, type=command.TYPE, source="/bench", subject=command_id, time=format_time(now),
            correlation_id=command_id, company_id=_CALLER.company_id, identity=self._signer.sign(_CALLER),
            expires_at=format_time(now + timedelta(minutes=1)),
        )  # fmt: skip
        await (await self._producer.send(command.TOPIC.name, command_id, command.encode(), envelope.headers()))

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._signer.sign(_CALLER, expires_at=time.time() + 600)}"}


@dataclass(frozen=True)
class RunningService:
    client: IngestionClient
    processes: dict[str, psutil.Process]


@asynccontextmanager
async def ingestion_service(
    children: Children, *, kafka: str, database_url: str, objects: Path, workers: int
) -> AsyncIterator[RunningService]:
    """Its topics have a prefix of their own, so that nothing of an earlier one is met."""
    prefix, key, port = f"b{secrets.token_hex(3)}-", secrets.token_hex(32), choose_free()
    await create_topics(kafka, prefix)
    environment = {
        "AES_KAFKA_BOOTSTRAP_SERVERS": kafka,
        "AES_TOPIC_PREFIX": prefix,
        "AES_SIGNING_KEY": key,
        "AES_AUTO_MIGRATE": "1",
        "AES_LOG_LEVEL": "WARNING",
        "AES_INGESTION_DATABASE_URL": database_url,
        "AES_INGESTION_OBJECTS_URL": f"file:{objects}",
        "AES_INGESTION_PARSE_AHEAD": "false",
        "AES_INGESTION_MAX_FILES_PER_UPLOAD": str(_UPLOADED_AT_ONCE),
    }
    ports = {"api": port, **{f"worker {number}": choose_free() for number in range(1, workers + 1)}}
    processes = {}
    async with AsyncExitStack() as opened:
        for name, own in ports.items():
            role = "all" if name == "api" else "streams"
            variable = "AES_INGESTION_PORT" if name == "api" else "AES_INGESTION_STREAMS_PORT"
            child = children.started(["services.ingestion", role], {**environment, variable: str(own)})
            processes[name] = psutil.Process((await opened.enter_async_context(child)).pid)
            await _ready(own, name)
        # Give the workers time to share the partitions among them.
        await asyncio.sleep(5)
        producer = KafkaBus(kafka, prefix=prefix, client_id="bench").producer()
        await producer.start()
        opened.push_async_callback(producer.stop)
        session = await opened.enter_async_context(aiohttp.ClientSession())
        client = IngestionClient(session, producer, IdentitySigner(key), f"http://127.0.0.1:{port}")
        await _warm_up(client, workers)
        yield RunningService(client, processes)


async def _warm_up(client: IngestionClient, workers: int) -> None:
    """Models are loaded and parsing processes started when first needed; the reference has both before it begins."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{number}.html" for number in range(48 * workers)]
        for path in paths:
            path.write_text(f"<html><body><h1>{path.name}</h1><p>Warm up.</p></body></html>")
        await client.ingest(await client.collect(await client.upload(paths)))


async def _ready(port: int, name: str) -> None:
    deadline = time.monotonic() + 90
    while not await answers_ok(port, "/health/ready"):
        if time.monotonic() > deadline:
            raise IngestionFailed(f"the {name} process was not ready in time")
        await asyncio.sleep(0.2)
