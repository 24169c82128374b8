"""Operations of users, begun at a steady pace; each takes as long as the outage that it meets."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Final

from tests.rolling_restart.client import Client, Lost, unique

AGENT: Final[dict[str, Any]] = {
    "name": "Outages",
    "agent_type": "llm_agent",
    "llm_config": {"model": "builtin:extractive"},
}
# So many that turns seldom wait for another one of their session.
_SESSIONS: Final = 48
_INGESTED_SECONDS: Final = 300.0
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
        self._sessions = [await self._new_session() for _ in range(_SESSIONS)]
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
            headers = {"prefer": "respond-async", "x-correlation-id": label}
            body = {"content": f"What is on the way? ({label})"}
            path = f"/runtime/{session}/execute/"
            accepted = await self._client.call("POST", path, expect=202, key=label, json=body, headers=headers)
            return str(accepted.json()["turn_id"])

        sessions = [await self._new_session() for _ in range(count)]
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
        await self._new_session()

    async def _new_session(self) -> str:
        headers = {"x-correlation-id": unique("session")}
        made = await self._client.call("POST", "/sessions/", expect=201, json=AGENT, headers=headers)
        return str(made.json()["session_id"])

    async def _turn(self) -> None:
        label = unique("turn")
        path, body = f"/runtime/{random.choice(self._sessions)}/execute/", {"content": f"What is it? ({label})"}
        headers = {"x-correlation-id": label}
        await self._client.call("POST", path, expect=200, key=label, json=body, headers=headers)

    async def _stream(self) -> None:
        label = unique("stream")
        path, body = f"/runtime/{random.choice(self._sessions)}/execute/", {"content": f"What is it? ({label})"}
        end = await self._client.stream(path, body, label, {"x-correlation-id": label})
        if end["event"] != "turn.completed":
            raise Lost(f"{label} ended as {end}")

    async def _agent(self) -> None:
        body = AGENT | {"name": unique("agent")}
        await self._client.call("POST", "/agent/", expect=201, json=body, headers={"x-correlation-id": unique("agent")})

    async def _upload(self) -> None:
        files = {"file": (f"{unique('notes')}.txt", random.randbytes(5_000).hex().encode())}
        path = f"/sessions/{random.choice(self._sessions)}/artifacts/"
        await self._client.call("POST", path, expect=201, files=files)

    async def _knowledge_base(self) -> None:
        words = [unique("word").replace("-", "") for _ in range(2)]
        files = [("file", (f"{word}.md", f"# About {word}\n\nThe {word} is kept here.\n")) for word in words]
        stored = (await self._client.call("POST", "/files/", expect=201, files=files)).json()
        body = {"name": unique("base"), "file_ids": [file["id"] for file in stored["files"]]}
        base = (await self._client.call("POST", "/knowledge-bases/", expect=201, json=body)).json()["id"]
        deadline = time.monotonic() + _INGESTED_SECONDS
        for pause in cycle((0.2,)):
            found = (await self._client.call("GET", f"/knowledge-bases/{base}/", expect=200)).json()
            if found["status"] == "completed":
                return
            if found["status"] == "failed" or time.monotonic() > deadline:
                raise Lost(f"{base} is {found['status']}: {found['datasource_errors']}")
            await asyncio.sleep(pause)
