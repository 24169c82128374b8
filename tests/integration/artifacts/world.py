"""The artifacts service and the one that indexes its documents, with a bus between them that a test passes on."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import time
from typing import Any

import httpx
import psycopg
from fastapi import FastAPI
from psycopg.rows import dict_row
from pydantic import SecretStr

from libs.blobs import original_key
from libs.contracts.errors import NotFound
from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity, Scope
from libs.contracts.messages import Command, Envelope, Event
from libs.contracts.resources.sessions import SessionDeleted
from libs.contracts.topics import INGESTION_COMMANDS
from libs.eventing import IdentitySigner
from libs.eventing.bus import Record
from libs.eventing.messages import OutboxMessage
from libs.objects import ObjectStore, open_store
from libs.service_defaults import Caller, Service
from libs.service_defaults._http_server import HttpServer
from libs.service_defaults.errors import install_error_handlers
from services.artifacts import bootstrap as artifacts_bootstrap
from services.artifacts.settings import ArtifactsSettings
from services.ingestion import bootstrap as ingestion_bootstrap
from services.ingestion.adapters.embeddings.configured import ConfiguredEmbedders
from services.ingestion.adapters.engines.pgvector.engine import PgvectorEngine
from services.ingestion.adapters.internal_api import HttpArtifactSource
from services.ingestion.adapters.postgres.artifact_documents import PostgresArtifactJobs
from services.ingestion.settings import IngestionSettings
from services.ingestion.use_cases.index_artifacts import IndexArtifacts, RemoveDeletedArtifacts
from services.ingestion.use_cases.settings_resolver import SettingsResolver
from tests.integration.ingestion.inline_ingestion import PlainTextReader
from tests.support.command_records import SIGNING_KEY, command_record
from tests.support.fake_producer import FakeProducer
from tests.support.waiting import until

MAX_BYTES = 2_000_000


def person(user: str = "alice", company: str = "company-1", *scopes: Scope) -> Identity:
    return Identity(company_id=company, user_id=user, key_id=f"key of {user}", scopes=frozenset(scopes))


@asynccontextmanager
async def served(app: Any, listening: socket.socket) -> AsyncIterator[None]:
    """With the application answering on that socket."""
    server = HttpServer(app, host="127.0.0.1", port=0, grace_seconds=1)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    await until(lambda: server.started)
    yield
    server.should_exit = True
    await serving


def listening() -> tuple[socket.socket, str]:
    """A socket and the address that it will answer at."""
    found = socket.create_server(("127.0.0.1", 0))
    return found, f"http://127.0.0.1:{found.getsockname()[1]}"


@dataclass
class FakeRuntime:
    """Sessions by id: company and owner of each, None once it is deleted."""

    sessions: dict[str, tuple[str, str]] = field(default_factory=dict)
    asked: int = 0

    def app(self) -> FastAPI:
        app = FastAPI()
        app.state.signer = IdentitySigner(SIGNING_KEY)
        install_error_handlers(app)

        @app.get("/internal/sessions/{session_id}")
        async def session(session_id: str, who: Caller) -> dict[str, str]:
            self.asked += 1
            company, owner = self.sessions.get(session_id, ("", ""))
            if company != who.company_id or not who.may_read_of(owner):
                raise NotFound("There is no session with this ID.")
            return {"session_id": session_id, "owner_id": owner, "status": "active"}

        return app


@dataclass
class World:
    artifacts: Service
    ingestion: Service
    runtime: FakeRuntime
    producer: FakeProducer
    store: ObjectStore
    files: ObjectStore
    reader: PlainTextReader
    indexing: IndexArtifacts
    remove_deleted: RemoveDeletedArtifacts
    http: httpx.AsyncClient
    urls: dict[str, str]
    _passed: dict[str, int] = field(default_factory=lambda: {"artifacts": 0, "ingestion": 0})
    _sent: int = 0

    def session(self, owner: Identity | None = None) -> str:
        """A new session's id."""
        session_id, owner = new_id(), owner or person()
        self.runtime.sessions[session_id] = (owner.company_id, owner.user_id)
        return session_id

    async def call(
        self, method: str, path: str, who: Identity | None = None, headers: dict[str, str] | None = None, **options: Any
    ) -> httpx.Response:
        """A call of the internal API; ``path`` below ``/internal``."""
        token = self.artifacts.signer.sign(who or person(), expires_at=time() + 300)
        sent = {**(headers or {}), "Authorization": f"Bearer {token}"}
        return await self.http.request(method, f"/internal{path}", headers=sent, **options)

    async def upload(
        self, session_id: str, name: str, content: Any, who: Identity | None = None, **headers: str
    ) -> httpx.Response:
        path = f"/sessions/{session_id}/artifacts"
        return await self.call("POST", path, who, headers, files={"file": (name, content)})

    async def artifact(self, session_id: str, name: str, content: bytes, **headers: str) -> dict[str, Any]:
        """Upload something; returns its record."""
        response = await self.upload(session_id, name, content, **headers)
        assert response.status_code == 201, response.text
        return response.json()

    async def generated(self, session_id: str, name: str, content: bytes, key: str | None = None) -> dict[str, Any]:
        parameters = {"name": name, **({"key": key} if key else {})}
        path = f"/sessions/{session_id}/generated-artifacts"
        response = await self.call("POST", path, params=parameters, content=content)
        assert response.status_code == 201, response.text
        return response.json()

    async def record(self, artifact: dict[str, Any], who: Identity | None = None) -> dict[str, Any]:
        response = await self.call("GET", f"/artifacts/{artifact['artifact_id']}", who)
        assert response.status_code == 200, response.text
        return response.json()

    async def dispatch(self, command: Command, who: Identity | None = None, command_id: str | None = None) -> str:
        """Deliver a command to the artifacts service; returns its id."""
        command_id = command_id or new_id()
        record = command_record(command, command_id=command_id, caller=who or person())
        await self.artifacts.commands.deliver(record)
        return command_id

    async def outcome(self, command_id: str) -> OutboxMessage | None:
        return await self.artifacts.outbox.outcome(command_id)

    async def maintain(self, name: str) -> int:
        """Runs the maintenance of the artifacts service once."""
        run: Any = next(run for task, run, _ in self.artifacts.lifecycle._background if task == name)
        return await run.__self__.once()

    async def delete_session(self, session_id: str, company: str = "company-1") -> None:
        """Tell the artifacts service that the session has ended."""
        event = SessionDeleted(session_id=session_id)
        await self._deliver(self.artifacts, event.TYPE, event, company, session_id)

    async def relay(self) -> int:
        """Deliver everything that the services have told each other so far; returns how much that was."""
        count = await self.send_commands()
        for name, other in (("artifacts", self.ingestion), ("ingestion", self.artifacts)):
            count += await self._pass_events(name, other)
        return count

    async def settle(self) -> None:
        """Let everything come to its end."""
        while any(
            [
                await self.maintain("tables.read"),
                await self.maintain("commands.resend"),
                await self.maintain("blobs.collect"),
                await self.indexing(),
                await self.remove_deleted(),
                await self.relay(),
            ]
        ):
            pass

    async def rows(self, service: str, query: str, *values: Any) -> list[dict[str, Any]]:
        """Runs a statement and returns its rows; also for moving rows into the past."""
        async with await psycopg.AsyncConnection.connect(self.urls[service], autocommit=True) as connection:
            cursor = connection.cursor(row_factory=dict_row)
            await cursor.execute(query, values)
            return await cursor.fetchall() if cursor.description else []

    async def told(self, artifact: dict[str, Any] | None = None) -> list[str]:
        """Events that the artifacts service has recorded, by their public names."""
        condition = "" if artifact is None else f"WHERE subject = '{artifact['artifact_id']}'"
        rows = await self.rows("artifacts", f"SELECT type FROM outbox {condition} ORDER BY id")
        return [row["type"].removeprefix("aes.artifacts.").removesuffix(".v1") for row in rows]

    async def original_of(self, artifact: dict[str, Any]) -> str:
        """The key of an artifact's bytes."""
        query = "SELECT blob_id FROM artifacts WHERE id = %s"
        [row] = await self.rows("artifacts", query, artifact["artifact_id"])
        return original_key(row["blob_id"])

    async def lose_bytes(self, artifact: dict[str, Any]) -> None:
        await self.store.delete(await self.original_of(artifact))

    async def stored(self) -> list[str]:
        """Keys of everything in the artifacts service's object store."""
        return sorted([entry.key async for entry in self.store.entries()])

    def forget_passed(self) -> None:
        """Delivers all messages again, as after a crash before the offsets were committed."""
        self._passed = {"artifacts": 0, "ingestion": 0}
        self._sent = 0

    async def send_commands(self) -> int:
        """Let the artifacts service's outbox send, and the ingestion service carry out the commands among it."""
        await self.rows(
            "artifacts", "UPDATE outbox SET created_at = created_at - interval '1 minute' WHERE published_at IS NULL"
        )
        await self.artifacts.relay.sweep()
        sent = self.commands_sent()
        fresh, self._sent = sent[self._sent :], len(sent)
        for topic, key, value, envelope in fresh:
            await self.ingestion.commands.deliver(Record(topic, 0, 0, key, value, envelope.headers()))
        return len(fresh)

    def commands_sent(self) -> list[tuple[str, str, bytes, Envelope]]:
        return [message for message in self.producer.delivered if message[0] == INGESTION_COMMANDS.name]

    async def _pass_events(self, name: str, other: Service) -> int:
        rows = await self.rows(name, "SELECT * FROM outbox WHERE id > %s ORDER BY id", self._passed[name])
        for row in rows:
            self._passed[name] = row["id"]
            if row["identity"] is not None:
                continue
            await _to_routers(other, _recorded(row).envelope(f"/aes/{name}").headers(), row["payload"], row["topic"])
        return len(rows)

    async def _deliver(self, service: Service, kind: str, event: Event, company: str, subject: str) -> None:
        recorded = {"type": kind, "company_id": company, "subject": subject, "event_id": new_id()}
        now = (await self.rows("artifacts", "SELECT now() AS now"))[0]["now"]
        row = {
            **recorded, "id": 0, "topic": event.TOPIC.name, "sequence": 1, "correlation_id": "test",
            "causation_id": None, "traceparent": None, "identity": None, "payload": event.encode(), "created_at": now,
        }  # fmt: skip
        await _to_routers(service, _recorded(row).envelope("/tests").headers(), row["payload"], row["topic"])


async def _to_routers(service: Service, headers: list[tuple[str, bytes]], payload: bytes, topic: str) -> None:
    routers = [router for router in service.consumers.routers.values() if topic in router.topics]
    for router in routers:
        await router.deliver(Record(topic, 0, 0, "test", payload, headers))


def _recorded(row: dict[str, Any]) -> OutboxMessage:
    names = OutboxMessage.__dataclass_fields__
    return OutboxMessage(**{name: row[name] for name in names if name in row})


@asynccontextmanager
async def artifact_world(
    databases: dict[str, str], objects_url: str, directory: Path, use_producer: Callable[[FakeProducer], None]
) -> AsyncIterator[World]:
    """Both services on migrated databases of their own. ``use_producer`` makes services use that one."""
    producer = FakeProducer()
    use_producer(producer)
    sockets = {name: listening() for name in ("runtime", "artifacts", "ingestion")}
    addresses = {f"{name}_url": address for name, (_, address) in sockets.items()}
    shared: dict[str, Any] = {"signing_key": SecretStr(SIGNING_KEY), "gateway_url": "http://gateway.test", **addresses}
    artifacts = artifacts_bootstrap.build(
        ArtifactsSettings(
            database_url=SecretStr(databases["artifacts"]),
            objects_url=SecretStr(objects_url),
            max_upload_bytes=MAX_BYTES,
            max_image_pixels=1_000_000,
            lease_seconds=1,
            **shared,
        )
    )
    files_url = f"file:{directory}/files"
    ingestion = ingestion_bootstrap.build(
        IngestionSettings(database_url=SecretStr(databases["ingestion"]), objects_url=SecretStr(files_url), **shared)
    )
    runtime, reader = FakeRuntime(), PlainTextReader()
    store, files = open_store(objects_url), open_store(files_url)
    async with AsyncExitStack() as stack:
        for service in (artifacts, ingestion):
            await service.database.open()
            stack.push_async_callback(service.database.close)
            stack.push_async_callback(service.calls.stop)
        await store.start()
        await files.start()
        apps = {"runtime": runtime.app(), "artifacts": artifacts.http, "ingestion": ingestion.http}
        for name, app in apps.items():
            await stack.enter_async_context(served(app, sockets[name][0]))
        embedders, engines = ConfiguredEmbedders({}), {"pgvector": PgvectorEngine(ingestion.database)}
        jobs = PostgresArtifactJobs(ingestion.database, ingestion.outbox)
        remove_deleted = RemoveDeletedArtifacts(jobs, files, engines)
        indexing = IndexArtifacts(
            jobs,
            HttpArtifactSource(ingestion.calls),
            reader,
            files,
            embedders,
            engines,
            SettingsResolver(embedders, engines, "pgvector"),
            at_once=2,
        )
        http = await stack.enter_async_context(httpx.AsyncClient(base_url=sockets["artifacts"][1], timeout=60))
        yield World(
            artifacts, ingestion, runtime, producer, store, files, reader, indexing, remove_deleted, http, databases
        )
