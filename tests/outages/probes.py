"""Operations of users, begun at a steady pace; each takes as long as the outage that it meets."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from tests.rolling_restart.client import Client, Lost, unique, unique_words
from tests.rolling_restart.load import AGENT

# So many that turns seldom wait for another one of their session.
_SESSIONS: Final = 48
_LOOK_SECONDS: Final = 0.1
Operation = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Done:
    """An operation that came to its end, repeated where a careful client repeats; times by the monotonic clock."""

    kind: str
    began: float
    ended: float

    @property
    def seconds(self) -> float:
        return self.ended - self.began


class Probes:
    """Begins each kind of operation every so many seconds, whether or not earlier ones have ended.

    Every operation has a correlation id of its own, so that all partitions of the bus are met.
    """

    def __init__(self, client: Client) -> None:
        self.done: list[Done] = []
        self.losses: list[str] = []
        self.late = 0.0
        """The longest time, in seconds, for which this process was not run: what it measures contains that."""
        self._client = client
        self._sessions: list[str] = []
        self._begun: set[asyncio.Task[None]] = set()
        self._pacing: list[asyncio.Task[None]] = []
        self.kinds: dict[str, tuple[float, Operation]] = {
            "reads": (0.25, self._read),
            "sessions": (0.5, self._session),
            "turns": (0.5, self._turn),
            "streams": (1.0, self._stream),
            "agents": (1.0, self._agent),
            "uploads": (1.0, self._upload),
            "knowledge bases": (2.0, self._knowledge_base),
        }

    async def start(self) -> None:
        self._sessions = [await self._client.session(AGENT) for _ in range(_SESSIONS)]
        self._pacing = [
            asyncio.create_task(self._pace(kind, seconds, operation))
            for kind, (seconds, operation) in self.kinds.items()
        ]
        self._pacing.append(asyncio.create_task(self._watch_itself()))

    async def stop(self) -> None:
        """Begins nothing more, and waits for what was begun."""
        for pacing in self._pacing:
            pacing.cancel()
        await asyncio.gather(*self._pacing, *self._begun, return_exceptions=True)

    async def turns_under_way(self, count: int) -> list[str]:
        """Begins turns in sessions of their own; returns their ids."""

        async def begin(session: str) -> str:
            label = unique("under-way")
            return await self._client.begin(session, f"What is on the way? ({label})", label)

        sessions = [await self._client.session(AGENT) for _ in range(count)]
        return await asyncio.gather(*map(begin, sessions))

    async def _pace(self, kind: str, seconds: float, operation: Operation) -> None:
        await asyncio.sleep(random.random() * seconds)
        while True:
            task = asyncio.create_task(self._measured(kind, operation))
            self._begun.add(task)
            task.add_done_callback(self._begun.discard)
            await asyncio.sleep(seconds)

    async def _watch_itself(self) -> None:
        while True:
            began = time.monotonic()
            await asyncio.sleep(_LOOK_SECONDS)
            self.late = max(self.late, time.monotonic() - began - _LOOK_SECONDS)

    async def _measured(self, kind: str, operation: Operation) -> None:
        began = time.monotonic()
        try:
            await operation()
        except Lost as problem:
            self.losses.append(f"{kind}: {problem}")
        self.done.append(Done(kind, began, time.monotonic()))

    async def _read(self) -> None:
        await self._client.call("GET", f"/sessions/{random.choice(self._sessions)}/", expect=200)

    async def _session(self) -> None:
        await self._client.session(AGENT)

    async def _turn(self) -> None:
        label = unique("turn")
        await self._client.execute(random.choice(self._sessions), f"What is it? ({label})", label)

    async def _stream(self) -> None:
        label = unique("stream")
        end = await self._client.stream(random.choice(self._sessions), f"What is it? ({label})", label)
        if end["event"] != "turn.completed":
            raise Lost(f"{label} ended as {end}")

    async def _agent(self) -> None:
        body = AGENT | {"name": unique("agent")}
        await self._client.call("POST", "/agent/", expect=201, json=body, headers={"x-correlation-id": unique("agent")})

    async def _upload(self) -> None:
        await self._client.upload(random.choice(self._sessions), random.randbytes(5_000).hex().encode())

    async def _knowledge_base(self) -> None:
        await self._client.knowledge_base(unique_words(2))
