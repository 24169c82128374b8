"""Load of the clients: turns of every kind, ingestions and uploads of artifacts."""

from __future__ import annotations

import asyncio
import hashlib
import random
import time
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any, Final

from tests.rolling_restart.client import TIMEOUT_SECONDS, Client, Lost, unique, unique_words

MODEL: Final = "builtin:extractive"
AGENT: Final[dict[str, Any]] = {"name": "Rolling", "agent_type": "llm_agent", "llm_config": {"model": MODEL}}
FILES_AT_ONCE: Final = 6
_ENDED: Final = ("completed", "failed", "cancelled")


@dataclass(frozen=True)
class Turn:
    """A finished turn; ``question`` is also its correlation id."""

    session_id: str
    question: str
    turn_id: str
    answer: str
    tool_calls: int
    began: float
    seconds: float


@dataclass(frozen=True)
class Upload:
    session_id: str
    artifact_id: str
    digest: str


@dataclass(frozen=True)
class Ingestion:
    knowledge_base_id: str
    words: tuple[str, ...]
    """One in each of its documents and nowhere else."""


@dataclass
class Load:
    """Runs until ``stop``; what was begun is then brought to its end."""

    client: Client
    talkers: int
    pause: float
    """Seconds between the turns of one talker."""
    turns: list[Turn] = field(default_factory=list)
    uploads: list[Upload] = field(default_factory=list)
    ingestions: list[Ingestion] = field(default_factory=list)
    losses: list[str] = field(default_factory=list)
    underway: dict[str, float] = field(default_factory=dict)
    """When each turn began that has not ended, by its question."""

    def __post_init__(self) -> None:
        self._stop = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        work = [self._talk(number) for number in range(self.talkers)]
        work += [self._upload(), self._ingest()]
        self._tasks = [asyncio.create_task(each) for each in work]

    async def stop(self) -> None:
        self._stop.set()
        for outcome in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(outcome, BaseException):
                self.losses.append(str(outcome) if isinstance(outcome, Lost) else repr(outcome))

    async def _talk(self, number: int) -> None:
        """A conversation; every second one with an agent that has tools."""
        with_tools = {"agent_type": "react_agent", "tools": ["calculator"]}
        session = await self.client.session(AGENT | with_tools if number % 2 else AGENT)
        manners = cycle(("blocking", "background", "streamed"))
        while not self._stop.is_set():
            label = unique("turn")
            question = f"What is {random.randint(100, 999)} * {random.randint(100, 999)}? ({label})"
            await self._turn(session, question, label, next(manners))
            await self._rest(self.pause)

    async def _turn(self, session: str, question: str, label: str, manner: str) -> None:
        began = self.underway[label] = time.monotonic()
        try:
            if manner == "streamed":
                reply = await self.client.stream(session, question, label)
            elif manner == "background":
                reply = await self._ended(session, await self.client.begin(session, question, label))
            else:
                reply = await self.client.execute(session, question, label)
        except Lost as problem:
            self.losses.append(f"{manner} turn {label}: {problem}")
            return
        finally:
            del self.underway[label]
        if reply.get("event", "turn.completed") != "turn.completed" or "response" not in reply:
            self.losses.append(f"{manner} turn {label} ended otherwise: {reply}")
            return
        response = reply["response"]
        turn = Turn(
            session_id=session,
            question=question,
            turn_id=reply["turn_id"],
            answer=response["content"],
            tool_calls=len(response["tool_calls"]),
            began=began,
            seconds=time.monotonic() - began,
        )
        self.turns.append(turn)

    async def _ended(self, session: str, turn_id: str) -> dict[str, Any]:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            turn = await self.client.turn(session, turn_id)
            if turn["status"] in _ENDED:
                if turn["status"] != "completed":
                    raise Lost(f"it {turn['status']}: {turn}")
                return turn["reply"]
            await asyncio.sleep(0.1)
        raise Lost(f"it did not end within {TIMEOUT_SECONDS:g} s: {turn}")

    async def _upload(self) -> None:
        session = await self.client.session(AGENT)
        while not self._stop.is_set():
            content = random.randbytes(random.randint(50_000, 400_000)).hex().encode()
            artifact = await self.client.upload(session, content)
            self.uploads.append(Upload(session, artifact, hashlib.sha256(content).hexdigest()))
            await self._rest(self.pause * 2)

    async def _ingest(self) -> None:
        while not self._stop.is_set():
            words = unique_words(FILES_AT_ONCE)
            self.ingestions.append(Ingestion(await self.client.knowledge_base(words), words))
            await self._rest(self.pause * 3)

    async def _rest(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stop.wait()
        except TimeoutError:
            return


async def messages(client: Client, session: str) -> list[dict[str, Any]]:
    """A session's whole history."""
    found: list[dict[str, Any]] = []
    while True:
        query = {"limit": 200, "offset": len(found)}
        page = (await client.call("GET", f"/runtime/{session}/messages/", expect=200, params=query)).json()
        found += page["messages"]
        if not page["has_more"]:
            return found
