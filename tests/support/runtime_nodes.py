"""Runtime processes in miniature: real database, broker in memory, a model that does as it is told."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from typing import Any

import orjson
from psycopg import AsyncConnection
from pydantic import SecretStr

from libs.contracts.errors import StoreUnavailable
from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.contracts.messages import Command, CommandRejected, Envelope, Event, envelope_from, event_models
from libs.contracts.resources.actions import ResolveAction
from libs.contracts.resources.sessions import CreateSession, DeleteSession, ForkSession
from libs.contracts.resources.turns import CancelTurn, ExecuteTurn, TurnRequest
from libs.eventing import CommandRouter, IdentitySigner, Outbox, Relay
from libs.eventing.messages import OutboxMessage
from libs.persistence import Connection, Database, Presence
from services.runtime.adapters.postgres.conversations import PostgresConversations
from services.runtime.adapters.postgres.session_reads import PostgresSessionReads
from services.runtime.bootstrap import build_worker, serve_resources
from services.runtime.domain.artifacts import SessionArtifacts
from services.runtime.domain.conversation import ModelAnswer, UserMessage
from services.runtime.domain.models import ModelInfo, ModelRequest, OnText, ProviderInfo, VisionNotSupported
from services.runtime.domain.tools import Toolbox
from services.runtime.domain.turns import ClaimedTurn
from services.runtime.settings import RuntimeSettings
from services.runtime.use_cases.agent.agent_loop import AgentRunner
from services.runtime.use_cases.agent.context_builder import ContextBuilder
from services.runtime.use_cases.agent.inherited_artifacts import InheritedArtifacts
from services.runtime.use_cases.agent.turn_tools import AgentTools
from tests.support.agent_fakes import answering
from tests.support.command_records import SIGNING_KEY, command_record
from tests.support.internal_api import InternalApi
from tests.support.memory_bus import MemoryBus
from tests.support.waiting import until

# A stall of the machine must not look like the death of a worker: those that are to die are put to death.
LEASE_SECONDS = 8.0
Answer = Callable[[ModelRequest], ModelAnswer]


def person(user: str = "alice", company: str = "company-1", *scopes: str) -> Identity:
    return Identity(company_id=company, user_id=user, key_id=f"key of {user}", scopes=frozenset(scopes))


class ObedientModel:
    """Answers ``re: <question>``, or what ``scripts`` says for that question; waits while its gate is shut."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.requests: list[ModelRequest] = []
        self.scripts: dict[str, list[ModelAnswer | Exception]] = {}
        self._gates: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._shut: set[str] = set()

    def shut(self, *questions: str) -> None:
        self._shut.update(questions)

    def open(self, question: str) -> None:
        self._shut.discard(question)
        self._gates[question].set()

    async def answer(self, request: ModelRequest, on_text: OnText | None = None) -> ModelAnswer:
        question = next(m.text for m in reversed(request.messages) if isinstance(m, UserMessage))
        self.asked.append(question)
        self.requests.append(request)
        if question in self._shut:
            await self._gates[question].wait()
        script = self.scripts.get(question)
        answer = script.pop(0) if script else answering(f"re: {question}")
        if isinstance(answer, Exception):
            raise answer
        if on_text is not None:
            for word in answer.text.split(" "):
                on_text(word + " ")
        return answer

    def providers(self) -> tuple[ProviderInfo, ...]:
        return ()

    def require(self, _model: str, /) -> ModelInfo | None:
        return None

    def unsupported(self, model: str, options: Collection[str]) -> list[str]:
        ignored = ("stop", "tool_choice", "parallel_tool_calls") if model.startswith("plain:") else ()
        return [option for option in options if option in ignored]

    def require_vision(self, model: str) -> None:
        if model.startswith("blind:"):
            raise VisionNotSupported(f"{model} takes text only")


class SeverableDatabase(Database):
    """A database that can be cut off (``down``), or answer later (``held``): a process that is dead, or frozen."""

    down = False
    held: asyncio.Event | None = None

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        if self.held is not None:
            await self.held.wait()
        if self.down:
            raise StoreUnavailable("cut off")
        async with super().connection() as connection:
            yield connection


class DeltaLog:
    def __init__(self) -> None:
        self.sent: list[tuple[ClaimedTurn, Event]] = []

        self.follows: list[int] = []

    def send(self, turn: ClaimedTurn, event: Event, follows: int) -> None:
        self.sent.append((turn, event))
        self.follows.append(follows)


class Node:
    """One runtime process: workers of the same database share nothing else."""

    def __init__(
        self,
        url: str,
        bus: MemoryBus,
        model: ObedientModel,
        toolbox: Toolbox,
        artifacts: SessionArtifacts | None = None,
        *,
        grace: float = 1.0,
        **settings: Any,
    ) -> None:
        self.database = SeverableDatabase(url, name="test-runtime", max_size=6, plan_once=True)
        self.producer = bus.producer()
        self.signer = IdentitySigner(SIGNING_KEY)
        self.relay = Relay(self.database, self.producer, self.signer, source="/aes/runtime")
        self.outbox = Outbox(self.database, self.relay)
        self.router = CommandRouter(self.database, self.outbox, self.signer)
        self.reads = PostgresSessionReads(self.database)
        self.deltas = DeltaLog()
        self.settings = RuntimeSettings(
            signing_key=SecretStr(SIGNING_KEY),
            database_url=SecretStr(url),
            **{"lease_seconds": LEASE_SECONDS, "watch_interval_seconds": 0.1, **settings},
        )
        if artifacts is not None:
            artifacts = InheritedArtifacts(artifacts, PostgresConversations(self.database))
        agent = AgentRunner(model, AgentTools(toolbox), context=ContextBuilder(artifacts))
        self.presence = Presence(url, name="test-runtime", grace=grace, distrust=LEASE_SECONDS)
        self.worker = build_worker(
            self.settings, self.database, self.outbox, self.presence, agent, model, self.deltas, artifacts=artifacts
        )
        internal = InternalApi(self.signer)
        self.answer = internal.answer
        serve_resources(self.router, internal.app, self.worker, self.database, self.outbox, source="/aes/runtime")
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, *, reconciling: bool = True, present: bool = True) -> None:
        await self.database.open()
        await self.producer.start()
        if present:
            self._tasks = [asyncio.create_task(self.presence.run())]
            await self.presence.held.wait()
        await self.worker.lease.renew()
        runs = [self.relay.run, self.worker.lease_keeper.run]
        runs += [self.worker.reconciler.run] if reconciling else []
        self._tasks += [asyncio.create_task(run()) for run in runs]

    async def crash(self) -> None:
        """Ends it like kill -9 some time ago: nothing is committed or released."""
        await self.kill()
        await self.outlive_lease()

    async def kill(self) -> None:
        """Ends it like kill -9 just now: its lease lasts, its connections are closed."""
        self.database.down = True
        for task in self._tasks:
            task.cancel()
        self.worker.engine.abandon()
        await asyncio.wait(self._tasks)

    async def outlive_lease(self) -> None:
        """Lets the lease run out; a worker that can still reach the database renews it."""
        async with await AsyncConnection.connect(self.database.url, autocommit=True) as connection:
            await connection.execute(
                "UPDATE workers SET lease_expires_at = clock_timestamp() - interval '1 second' WHERE id = %s",
                (self.worker.id,),
            )

    async def close(self) -> None:
        self.worker.engine.abandon()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.database.close()

    async def deliver(
        self, command: Command, caller: Identity | None = None, command_id: str | None = None, *, label: str = "label"
    ) -> str:
        """Hands a command to the router as the consumer does; returns its id."""
        caller, command_id = caller or person(), command_id or new_id()
        record = command_record(command, command_id=command_id, caller=caller, label=label)
        await self.router.deliver(record)
        return command_id

    async def create_session(self, caller: Identity | None = None, **config: Any) -> str:
        session_id = new_id()
        agent = {"name": "Tester", "agent_type": "llm_agent", "llm_config": {"model": "test:model"}, **config}
        await self.deliver(CreateSession(session_id=session_id, agent_config=agent, config_hash="hash"), caller)
        return session_id

    async def execute(self, session_id: str, content: Any, caller: Identity | None = None, **options: Any) -> str:
        stream, turn_options = options.pop("stream", False), options.pop("turn_options", None)
        request = TurnRequest(stream=stream, options=turn_options)
        command = ExecuteTurn(session_id=session_id, content=content, request=request)
        return await self.deliver(command, caller, **options)

    async def cancel(self, session_id: str, turn_id: str, caller: Identity | None = None) -> str:
        return await self.deliver(CancelTurn(session_id=session_id, turn_id=turn_id), caller)

    async def fork(
        self,
        session_id: str,
        up_to: str | None = None,
        caller: Identity | None = None,
        command_id: str | None = None,
        *,
        before: str | None = None,
        expires_after: int | None = None,
    ) -> str:
        """The id of the command and of the new session, which is not listed when it expires."""
        command_id = command_id or new_id()
        command = ForkSession(
            session_id=command_id,
            source_session_id=session_id,
            up_to_turn_id=up_to,
            before_turn_id=before,
            listed=expires_after is None,
            expires_after=expires_after,
        )
        return await self.deliver(command, caller, command_id)

    async def delete(self, session_id: str, caller: Identity | None = None) -> str:
        return await self.deliver(DeleteSession(session_id=session_id), caller)

    async def resolve(self, session_id: str, turn_id: str, action_id: str, caller: Identity, **answer: Any) -> str:
        command = ResolveAction(session_id=session_id, turn_id=turn_id, action_id=action_id, **answer)
        return await self.deliver(command, caller)

    async def waiting(self, turn_id: str) -> list[dict[str, Any]]:
        """The open waits of a turn, waited for."""
        await until(lambda: self._has_status(turn_id, "waiting"), "the turn does not wait")
        rows = await self.rows(
            "SELECT to_json(w)::text FROM waits w WHERE turn_id = %s AND state = 'open' ORDER BY created_at, id",
            turn_id,
        )
        return [dict(orjson.loads(row[0])) for row in rows]

    async def _has_status(self, turn_id: str, status: str) -> bool:
        return bool((await self.turn(turn_id)).get("status") == status)

    async def rows(self, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
        async with self.database.connection() as connection:
            return await (await connection.execute(query, parameters)).fetchall()

    async def turn(self, turn_id: str) -> dict[str, Any]:
        rows = await self.rows("SELECT to_json(t)::text FROM turns t WHERE id = %s", turn_id)
        return dict(orjson.loads(rows[0][0])) if rows else {}

    async def ended(self, *turn_ids: str) -> list[dict[str, Any]]:
        """Waits until all of them have ended."""

        async def all_ended() -> bool:
            return all([(await self.turn(turn_id))["finished_at"] for turn_id in turn_ids])

        await until(all_ended, "the turns did not end")
        return [await self.turn(turn_id) for turn_id in turn_ids]

    async def events(self, cause: str) -> list[tuple[str, dict[str, Any]]]:
        """Name and payload of all events that a command caused, in the order of their sequence."""
        rows = await self.rows(
            "SELECT type, payload, subject, sequence FROM outbox WHERE causation_id = %s ORDER BY subject, sequence",
            cause,
        )
        return [(row[0].split(".", 2)[2].rsplit(".", 1)[0], orjson.loads(row[1])) for row in rows]

    async def names(self, cause: str) -> list[str]:
        return [name for name, _ in await self.events(cause)]

    async def outcome(self, command_id: str) -> tuple[str, dict[str, Any]]:
        """The terminal event of a command, waited for."""
        found = await self._outcome(command_id)
        return found.type.split(".", 2)[2].rsplit(".", 1)[0], orjson.loads(found.payload)

    async def dispatch(self, command: Command, command_id: str, label: str, caller: Identity) -> Event:
        """The terminal event of a command from the gateway."""
        found = await self._outcome(await self.deliver(command, caller, command_id, label=label))
        return event_models().get(found.type, CommandRejected).decode(found.payload)

    async def _outcome(self, command_id: str) -> OutboxMessage:
        return await until(lambda: self.outbox.outcome(command_id), "no outcome")

    async def history(self, session_id: str) -> list[tuple[str, str]]:
        page = await self.reads.messages(session_id, person("alice"), limit=200, offset=0)
        return [(message.role, message.content) for message in page.messages] if page else []


def published(bus: MemoryBus, cause: str) -> list[Envelope]:
    envelopes = [envelope_from(record.headers) for record in bus.records("runtime-events")]
    return [envelope for envelope in envelopes if envelope.causation_id == cause]
