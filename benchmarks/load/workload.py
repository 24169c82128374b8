"""One measured phase: workers that each carry on conversations, turn after turn."""

import asyncio
import gc
import time
from collections import deque
from collections.abc import Awaitable, Callable

from benchmarks.load.http_client import Connection, RequestFailed, Response
from benchmarks.load.job import Job, Outcome
from benchmarks.load.targets import target

_REQUEST_SECONDS = 60


class Workload:
    """`prepare` creates all sessions, so that `run` measures turns alone, unless the job opens them while it runs."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._target = target(job)
        self._connections = [Connection("127.0.0.1", job.port) for _ in range(job.concurrency)]
        self._sessions: deque[str] = deque()
        self._turns_left = 0
        self._until = 0.0

    async def prepare(self) -> None:
        if self._job.warm_up:
            await self._create_sessions(self._job.warm_up)
            await self._run_turns(self._job.warm_up)
        await self._create_sessions(self._job.turns)

    async def run(self) -> Outcome:
        # A collection of the generator's own garbage would count as the latency of a turn.
        gc.collect()
        gc.disable()
        try:
            began = time.perf_counter()
            outcome = await self._run_turns(self._job.turns)
            outcome.seconds = time.perf_counter() - began
        finally:
            gc.enable()
        return outcome

    def close(self) -> None:
        for connection in self._connections:
            connection.close()

    async def _create_sessions(self, turns: int) -> None:
        """Every session is used up or in the hands of a worker, so this many are enough for the turns."""
        if self._job.opens_sessions:
            return
        left = -(-turns // self._job.turns_per_session) + self._job.concurrency
        self._sessions.clear()

        async def worker(connection: Connection) -> None:
            nonlocal left
            while left > 0:
                left -= 1
                response = await _limited(connection.request(self._target.new_session()))
                self._sessions.append(self._target.session_of(response))

        await self._side_by_side(worker)

    async def _run_turns(self, turns: int) -> Outcome:
        outcome = Outcome()
        self._turns_left = turns
        self._until = time.perf_counter() + self._job.seconds
        await self._side_by_side(lambda connection: self._converse(connection, outcome))
        return outcome

    async def _converse(self, connection: Connection, outcome: Outcome) -> None:
        marker = self._target.first_text if self._job.stream else None
        turn = 0
        message = b""
        while self._turns_left > 0 and time.perf_counter() < self._until:
            self._turns_left -= 1
            if turn % self._job.turns_per_session == 0:
                message = self._target.execute(await self._session(connection, outcome))
            turn += 1
            response = await _limited(connection.request(message, marker))
            self._target.check(response)
            outcome.latencies.append(response.seconds * 1000)
            if marker:
                # A turn whose pieces were left out shows its text at its end.
                first = response.seconds if response.first_mark is None else response.first_mark
                outcome.first_texts.append(first * 1000)

    async def _session(self, connection: Connection, outcome: Outcome) -> str:
        """One that was created before, or a fresh one that counts as created while the clock ran."""
        if not self._job.opens_sessions:
            return self._sessions.popleft()
        response = await _limited(connection.request(self._target.new_session()))
        session = self._target.session_of(response)
        outcome.creations.append(response.seconds * 1000)
        return session

    async def _side_by_side(self, work: Callable[[Connection], Awaitable[None]]) -> None:
        tasks = [asyncio.ensure_future(work(connection)) for connection in self._connections]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()


async def _limited(request: Awaitable[Response]) -> Response:
    try:
        async with asyncio.timeout(_REQUEST_SECONDS):
            return await request
    except TimeoutError:
        raise RequestFailed(f"no answer within {_REQUEST_SECONDS} s") from None
