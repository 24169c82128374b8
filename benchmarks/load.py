"""The load generator: `python -m benchmarks.load`. A separate process, so that its CPU time is counted separately.

Reads jobs as lines from stdin. For each job, prepares it, prints `{"ready": true}`, waits for a line, runs the job, and
prints the outcome. After a failure, prints `{"error": "…"}`.
"""

import asyncio
import gc
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Literal

import aiohttp
import orjson
import uvloop

from deploy.local.errors import StackError

Side = Literal["aes", "reference"]
Protocol = Literal["native", "responses", "chat"]
_PROMPT: Final = "Summarise in two sentences what we have said so far, and name the open question."
_INSTRUCTIONS: Final = "You are a helpful assistant of a small company. Answer briefly and say so when you do not know."
_REQUEST_SECONDS: Final = 60
# A general-purpose client would request compressed responses.
_NO_HEADERS: Final = ("Accept-Encoding", "User-Agent")


@dataclass(frozen=True)
class Scenario:
    """A load of ``turns`` in total, on ``concurrency`` sessions and connections at the same time."""

    name: str
    concurrency: int
    turns: int
    model: str = "stub"
    stream: bool = False
    tool: str = ""
    """The tool that every turn calls once."""
    protocol: Protocol = "native"
    """The service's API to use. With OpenAI's API, each turn creates its own session."""
    turns_per_session: int = 20
    """The number of turns in a session."""
    opens_sessions: bool = False
    """Whether sessions are created during the measurement, not before."""

    @property
    def warm_up(self) -> int:
        return max(10, 2 * self.concurrency)

    def shortened(self) -> "Scenario":
        return replace(self, turns=max(20, self.turns // 8, 2 * self.concurrency))


@dataclass(frozen=True)
class Job:
    """A scenario to run against the service or the reference at ``port``. No turn starts after ``seconds``."""

    side: Side
    port: int
    api_key: str
    seconds: float
    scenario: Scenario


@dataclass
class Outcome:
    """Times in milliseconds: per turn, until a streamed turn's first text, and per created session."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    first_texts: list[float] = field(default_factory=list)
    creations: list[float] = field(default_factory=list)


class LoadFailed(StackError):
    """The measured system didn't respond as expected."""


@dataclass(frozen=True)
class Dialect:
    """The requests of the service's or the reference's API.

    In a stream, ``first_text`` and ``last_event`` mark the first text and the end.
    """

    sessions: str
    agent: dict[str, Any]
    execute: str
    message: dict[str, Any]
    first_text: bytes
    last_event: bytes
    headers: dict[str, str]


def dialect(job: Job) -> Dialect:
    asked, message = job.scenario, {"content": _PROMPT}
    if job.side == "reference":
        agent: dict[str, Any] = {"tool": asked.tool, "model": asked.model, "instructions": _INSTRUCTIONS}
        marks = b"event: delta\n", b"event: completed\n"
        return Dialect("/sessions", agent, "/sessions/{}/execute", message, *marks, {})
    model, bearer = f"openai:{asked.model}", {"Authorization": f"Bearer {job.api_key}"}
    agent = {
        "name": "benchmark",
        "agent_type": "react_agent" if asked.tool else "llm_agent",
        "system_prompt": _INSTRUCTIONS,
        "llm_config": {"model": model},
        "tools": [asked.tool] if asked.tool else [],
    }
    sessions, openai = "/api/v1/sessions/", {"model": model, "stream": asked.stream}
    if asked.protocol == "responses":
        body = {**openai, "instructions": _INSTRUCTIONS, "input": _PROMPT}
        marks = b"event: response.output_text.delta\n", b"event: response.completed\n"
        return Dialect(sessions, agent, "/openai/v1/responses", body, *marks, bearer)
    if asked.protocol == "chat":
        said = [{"role": "system", "content": _INSTRUCTIONS}, {"role": "user", "content": _PROMPT}]
        marks = b'"delta":{"content":', b"data: [DONE]"
        return Dialect(sessions, agent, "/openai/v1/chat/completions", {**openai, "messages": said}, *marks, bearer)
    marks, key = (b"event: turn.output_text.delta\n", b"event: turn.completed\n"), {"x-api-key": job.api_key}
    return Dialect(sessions, agent, "/api/v1/runtime/{}/execute/", message, *marks, key)


class Workload:
    """Runs a job. Unless the job measures the creation of sessions, `prepare` creates them all."""

    def __init__(self, job: Job, http: aiohttp.ClientSession) -> None:
        self._job, self._asked, self._dialect, self._http = job, job.scenario, dialect(job), http
        self._message = orjson.dumps(self._dialect.message)
        self._sessions: deque[str] = deque()
        self._turns_left = 0
        self._until = 0.0

    async def prepare(self) -> None:
        await self._create_sessions(self._asked.warm_up)
        await self._run_turns(self._asked.warm_up)
        await self._create_sessions(self._asked.turns)

    async def run(self) -> Outcome:
        # A garbage collection of the generator would count toward a turn's latency.
        gc.collect()
        gc.disable()
        try:
            began = time.perf_counter()
            outcome = await self._run_turns(self._asked.turns)
            outcome.seconds = time.perf_counter() - began
        finally:
            gc.enable()
        return outcome

    async def _create_sessions(self, turns: int) -> None:
        """Creates enough sessions for the turns. Each worker may leave one session partly used."""
        if self._asked.opens_sessions:
            return
        left = -(-turns // self._asked.turns_per_session) + self._asked.concurrency
        self._sessions.clear()

        async def create() -> None:
            nonlocal left
            while left > 0:
                left -= 1
                self._sessions.append((await self._new_session())[0])

        await self._side_by_side(create)

    async def _run_turns(self, turns: int) -> Outcome:
        outcome = Outcome()
        self._turns_left = turns
        self._until = time.perf_counter() + self._job.seconds
        await self._side_by_side(lambda: self._converse(outcome))
        return outcome

    async def _converse(self, outcome: Outcome) -> None:
        turn = 0
        path = ""
        while self._turns_left > 0 and time.perf_counter() < self._until:
            self._turns_left -= 1
            if turn % self._asked.turns_per_session == 0:
                path = self._dialect.execute.format(await self._session(outcome))
            turn += 1
            await self._turn(path, outcome)

    async def _session(self, outcome: Outcome) -> str:
        """Returns a prepared session, or creates and measures one."""
        if not self._asked.opens_sessions:
            return self._sessions.popleft()
        session, seconds = await self._new_session()
        outcome.creations.append(1000 * seconds)
        return session

    async def _new_session(self) -> tuple[str, float]:
        body, seconds, _ = await self._post(self._dialect.sessions, orjson.dumps(self._dialect.agent), 201)
        return str(orjson.loads(body)["session_id"]), seconds

    async def _turn(self, path: str, outcome: Outcome) -> None:
        """Runs and measures a turn. Raises LoadFailed if the turn or the expected tool call didn't complete."""
        marker = self._dialect.first_text if self._asked.stream else None
        body, seconds, first = await self._post(path, self._message, 200, marker)
        if self._asked.stream:
            if self._dialect.last_event not in body:
                raise LoadFailed(f"a stream ended early: {body[-500:]!r}")
            # A stream may contain the text only at the end.
            outcome.first_texts.append(1000 * (seconds if first is None else first))
        elif not self._is_complete(orjson.loads(body)):
            raise LoadFailed(f"unexpected response to a turn: {body[:500]!r}")
        outcome.latencies.append(1000 * seconds)

    def _is_complete(self, answer: dict[str, Any]) -> bool:
        if self._job.side == "aes" and self._asked.protocol != "native":
            return bool(answer.get("output") or answer.get("choices"))
        said = answer["response"]
        return bool(said["content"]) and len(said["tool_calls"]) == bool(self._asked.tool)

    async def _post(
        self, path: str, body: bytes, status: int, marker: bytes | None = None
    ) -> tuple[bytes, float, float | None]:
        """Returns the response, the seconds that it took, and the seconds until the marker appeared in the response."""
        headers = {"Accept": "text/event-stream"} if marker else None
        first, received = None, bytearray()
        began = time.perf_counter()
        try:
            async with self._http.post(path, data=body, headers=headers) as answer:
                async for piece in answer.content.iter_any():
                    received += piece
                    if marker and first is None and marker in received:
                        first = time.perf_counter() - began
        except (aiohttp.ClientError, TimeoutError) as problem:
            raise LoadFailed(f"{path} didn't respond: {problem!r}") from problem
        if answer.status != status:
            raise LoadFailed(f"{path} returned {answer.status}: {bytes(received[:500])!r}")
        return bytes(received), time.perf_counter() - began, first

    async def _side_by_side(self, work: Callable[[], Awaitable[None]]) -> None:
        tasks = [asyncio.ensure_future(work()) for _ in range(self._asked.concurrency)]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()


def _answer(document: dict[str, Any]) -> None:
    sys.stdout.buffer.write(orjson.dumps(document) + b"\n")
    sys.stdout.buffer.flush()


async def _serve() -> None:
    while line := await asyncio.to_thread(sys.stdin.buffer.readline):
        document = orjson.loads(line)
        job = Job(**{**document, "scenario": Scenario(**document["scenario"])})
        async with aiohttp.ClientSession(
            f"http://127.0.0.1:{job.port}",
            headers={"Content-Type": "application/json", **dialect(job).headers},
            skip_auto_headers=_NO_HEADERS,
            timeout=aiohttp.ClientTimeout(total=_REQUEST_SECONDS),
            connector=aiohttp.TCPConnector(limit=job.scenario.concurrency),
            cookie_jar=aiohttp.DummyCookieJar(),
        ) as http:
            workload = Workload(job, http)
            try:
                await workload.prepare()
                _answer({"ready": True})
                if not await asyncio.to_thread(sys.stdin.buffer.readline):
                    return
                _answer(asdict(await workload.run()))
            except (LoadFailed, OSError) as error:
                _answer({"error": str(error)})


if __name__ == "__main__":
    uvloop.run(_serve())
