"""The embedded stack's supervisor process, which runs from `aes up` to `aes down`."""

import asyncio
import fcntl
import os
import shutil
import signal
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress

from deploy.local.errors import PortTaken, StackError
from deploy.local.files import write_atomically
from deploy.local.home import Home
from deploy.local.kafka import create_topics, remember_topics, topics_are_created
from deploy.local.managed_process import ManagedProcess
from deploy.local.process_supervisor import ProcessSupervisor, log
from deploy.local.processes import Identity, end_orphans
from deploy.local.services import SERVICES, Service
from deploy.local.stack import Stack, build_stack
from deploy.local.state import Phase, ProcessState, StackState

ALREADY_RUNNING = 3
# Services guarantee to end within 10 s.
_SERVICE_GRACE, _STORAGE_GRACE = 12.0, 20.0
_LARGEST_LOG = 50 * 1024 * 1024
_PORT_CHOICES = 5
_TRIM_SECONDS, _REWRITE_SECONDS = 30.0, 1.0


class Supervisor:
    def __init__(self, home: Home, services: Sequence[Service]) -> None:
        self._home, self._declared = home, services
        self._state = StackState(supervisor=Identity.of(os.getpid()), phase="starting")
        self._storage: list[ProcessSupervisor] = []
        self._services: list[ProcessSupervisor] = []
        self._topics_exist = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._unwritten = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> int:
        """Keeps the stack running until `stop` is set. Returns the exit code."""
        self._write()
        rewriting = asyncio.create_task(self._repeat_failed_writes())
        starting = asyncio.create_task(self._start())
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
        outcome: Phase = "stopped"
        if starting.done() and (error := starting.exception()) is not None:
            outcome = "failed"
            if not isinstance(error, StackError):
                error = StackError(repr(error), f"See {self._home.log_of('supervisor')}")
            self._state.error, self._state.remedy = error.problem, error.remedy
        elif starting.done():
            self._enter("running")
            trimming = asyncio.create_task(self._trim_logs())
            await stop.wait()
            trimming.cancel()
        starting.cancel()
        await asyncio.wait([starting])
        self._enter("stopping")
        await self._stop_processes()
        rewriting.cancel()
        self._enter(outcome)
        return 1 if outcome == "failed" else 0

    async def _start(self) -> None:
        ended = await asyncio.to_thread(end_orphans, self._home.root, self._home.postgres)
        if ended:
            self._state.detail = f"stopped processes from an earlier run: {ended}"
        for _ in range(_PORT_CHOICES - 1):
            try:
                await self._start_processes()
                return
            except PortTaken as problem:
                # Another stack may have bound the port between choosing and binding it.
                log(f"ports.chosen_anew: {problem.problem.splitlines()[0]}")
                await self._stop_processes()
        await self._start_processes()

    async def _start_processes(self) -> None:
        stack = build_stack(self._home, os.environ, self._declared)
        self._state.base_url = stack.base_url
        postgres = self._supervise(stack.postgres, "postgres")
        kafka = self._supervise(stack.kafka, "kafka")
        self._storage = [postgres, kafka]
        self._services = [self._supervise(part, part.service) for part in stack.services]
        self._write()
        await _all_or_first_error([self._start_in_order(postgres), self._start_kafka(kafka, stack)])

    async def _start_in_order(self, postgres: ProcessSupervisor) -> None:
        """Starts PostgreSQL and, once Kafka's topics exist, all services."""
        await postgres.start()
        await self._topics_exist.wait()
        await _all_or_first_error([service.start() for service in self._services])

    async def _start_kafka(self, kafka: ProcessSupervisor, stack: Stack) -> None:
        if topics_are_created(self._home.kafka, stack.topic_prefix):
            self._topics_exist.set()
        await kafka.start()
        write_atomically(self._home.kafka_password_file, stack.kafka.password + "\n", mode=0o600)
        if not self._topics_exist.is_set():
            self._state.detail = "creating topics"
            self._write()
            await create_topics(stack.kafka, stack.topic_prefix)
            remember_topics(self._home.kafka, stack.topic_prefix)
            self._topics_exist.set()
            self._state.detail = ""
            self._write()

    async def _stop_processes(self) -> None:
        await asyncio.gather(*(supervisor.stop(_SERVICE_GRACE) for supervisor in self._services))
        await asyncio.gather(*(supervisor.stop(_STORAGE_GRACE) for supervisor in self._storage))
        # Children left behind by a process that ended.
        await asyncio.to_thread(end_orphans, self._home.root, self._home.postgres)

    async def _trim_logs(self) -> None:
        """Copies and truncates logs that have grown too large. This is safe because the writers append."""
        while True:
            for file in self._home.logs.glob("*.log"):
                try:
                    if file.stat().st_size > _LARGEST_LOG:
                        await asyncio.to_thread(shutil.copyfile, file, file.with_suffix(".log.1"))
                        os.truncate(file, 0)
                except OSError as error:
                    log(f"log.not_trimmed: {error}")
            await asyncio.sleep(_TRIM_SECONDS)

    async def _repeat_failed_writes(self) -> None:
        """Writes the state again after a failed write, such as on a full disk."""
        while True:
            await self._unwritten.wait()
            self._unwritten.clear()
            await asyncio.sleep(_REWRITE_SECONDS)
            self._write()

    def _supervise(self, part: ManagedProcess, service: str) -> ProcessSupervisor:
        self._state.parts[part.name] = state = ProcessState(service=service, port=part.port)
        return ProcessSupervisor(part, state, self._write)

    def _enter(self, phase: Phase) -> None:
        self._state.phase = phase
        self._write()

    def _write(self) -> None:
        try:
            self._state.write(self._home.state_file)
        except OSError as error:
            # A full disk must not stop the supervisor.
            log(f"state.not_written: {error}")
            # Downloads report from a thread.
            self._loop.call_soon_threadsafe(self._unwritten.set)


async def _all_or_first_error(steps: Iterable[object]) -> None:
    """Runs the steps concurrently. The first failure cancels the others and is raised."""
    tasks = [asyncio.ensure_future(step) for step in steps]  # type: ignore[call-overload]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _supervise(home: Home) -> int:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    # The terminal that started the stack may close.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return await Supervisor(home, SERVICES).run(stop)


def main() -> int:
    home = Home.from_environment()
    home.create()
    with home.supervisor_lock.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return ALREADY_RUNNING
        code = asyncio.Runner().run(_supervise(home))
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        # A normal exit would wait for a download that is still running in a thread.
        os._exit(code)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main())
