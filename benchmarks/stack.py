"""Starts a benchmark's embedded stack and additional processes."""

import asyncio
import fcntl
import os
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
import psycopg

from cli.terminal import note
from deploy.local.control import development_key, purge, take_down
from deploy.local.credentials import Credentials
from deploy.local.errors import StackError
from deploy.local.foreground import start
from deploy.local.home import PROJECT_ROOT, Home
from deploy.local.ports import choose_free
from deploy.local.postgres import ADMINISTRATOR, Postgres, create_database
from deploy.local.processes import MARKER, end, marked
from deploy.local.stack import postgres_of
from deploy.local.state import StackState

Say = Callable[[str], None]
_DATABASE = "reference"
_POLL_SECONDS = 0.1
_START_SECONDS = 120
_LONGEST_LINE = 64 * 1024 * 1024


class Children:
    """Starts additional processes, with `marker` in the environment and output in `log`."""

    def __init__(self, marker: str, log: Path) -> None:
        self._marker, self.log = marker, log

    @asynccontextmanager
    async def started(
        self, arguments: list[str], environment: Mapping[str, str] | None = None
    ) -> AsyncIterator[asyncio.subprocess.Process]:
        with self.log.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", *arguments,
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=log, limit=_LONGEST_LINE,
                cwd=PROJECT_ROOT, env={**os.environ, **(environment or {}), MARKER: self._marker},
                start_new_session=True,
            )  # fmt: skip
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                process.terminate()
            try:
                async with asyncio.timeout(10):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()

    @asynccontextmanager
    async def model_stub(self) -> AsyncIterator[tuple[psutil.Process, str]]:
        """Yields the model stub's process and base URL."""
        async with self.started(["tests.servers.model_stub"]) as process:
            yield psutil.Process(process.pid), await self._first_line(process, "the model stub")

    @asynccontextmanager
    async def reference_app(self, database_url: str, model_url: str) -> AsyncIterator[tuple[psutil.Process, int]]:
        """Yields the reference app's process and port."""
        environment = {
            "REFERENCE_DATABASE_URL": database_url,
            "OPENAI_BASE_URL": model_url,
            "OPENAI_API_KEY": "not-needed",
            "REFERENCE_LOOKUP_URL": _lookup_url(model_url),
        }
        async with self.started(["benchmarks.reference_app"], environment) as process:
            yield psutil.Process(process.pid), int(await self._first_line(process, "the reference app"))

    async def _first_line(self, process: asyncio.subprocess.Process, what: str) -> str:
        assert process.stdout is not None
        line = b""
        with suppress(TimeoutError):
            async with asyncio.timeout(_START_SECONDS):
                line = await process.stdout.readline()
        if not line:
            raise StackError(f"{what} didn't start.", f"See {self.log}")
        return line.decode().strip()


@asynccontextmanager
async def own_home(name: str) -> AsyncIterator[tuple[Home, Children]]:
    """Yields a state directory that shares only the downloads with the regular one.

    At the end, or on SIGTERM, stops all started processes and removes the directory. After a failure, the logs remain.
    """
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    home = _home(f"benchmark-{name}")
    with _alone(home):
        await asyncio.to_thread(_remove, home)
        home.create()
        marker = f"{home.root}:benchmark"
        # A killed run may have left processes behind.
        end(marked(marker))
        children = Children(marker, home.log_of("benchmark"))
        try:
            yield home, children
        except Exception:
            await asyncio.to_thread(take_down, home, lambda _: None)
            note(f"The logs remain in {home.logs} until the next run.")
            raise
        except BaseException:
            await asyncio.shield(asyncio.to_thread(_remove, home))
            raise
        await asyncio.to_thread(_remove, home)


def _home(name: str) -> Home:
    usual = Home.from_environment()
    usual.create()
    home = Home(usual.root / name)
    home.root.mkdir(exist_ok=True)
    # PostgreSQL may run as another user, who must be able to traverse the directory.
    home.root.chmod(0o711)
    if not home.cache.exists():
        home.cache.symlink_to(usual.cache, target_is_directory=True)
    return home


@contextmanager
def _alone(home: Home) -> Iterator[None]:
    with home.root.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StackError("This benchmark is already running.", "Wait for it to end.") from None
        yield


def _remove(home: Home) -> None:
    take_down(home, lambda _: None)
    purge(home)


@dataclass(frozen=True)
class BenchmarkStack:
    processes: dict[str, psutil.Process]
    reference_database: str
    """The URL of an empty database in the stack's PostgreSQL."""
    base_url: str = ""
    api_key: str = ""

    @property
    def port(self) -> int:
        return int(self.base_url.rpartition(":")[2] or 0)


@asynccontextmanager
async def whole_stack(
    home: Home, model_url: str = "", settings: Mapping[str, str] | None = None
) -> AsyncIterator[BenchmarkStack]:
    """Runs the same stack as `aes up`, with additional settings."""
    environment = environment_of(home) | {"OPENAI_BASE_URL": model_url, "OPENAI_API_KEY": "not-needed"}
    # Far above the sessions of the grown company, so that the limit is checked but not reached.
    environment |= {"AES_OUTBOUND_NETWORKS": "127.0.0.0/8", "AES_COMPANY_SESSIONS": str(10**9), **(settings or {})}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "deploy.local.supervisor",
        cwd=PROJECT_ROOT, env=environment, stdout=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        while (state := StackState.read(home.state_file)).phase != "running":
            if process.returncode is not None:
                raise StackError(f"The stack didn't start. {state.error}", f"See the logs in {home.logs}")
            await asyncio.sleep(_POLL_SECONDS)
        database = await _reference_database(stack_postgres(home))
        key = await asyncio.to_thread(development_key, home)
        yield BenchmarkStack(processes_of(state), database, state.base_url, key)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
        await asyncio.shield(asyncio.to_thread(take_down, home, lambda _: None))


def processes_of(state: StackState) -> dict[str, psutil.Process]:
    return {name: psutil.Process(part.pid) for name, part in state.parts.items() if part.pid is not None}


def stack_postgres(home: Home) -> Postgres:
    return postgres_of(home, Credentials.load_or_create(home.credentials_file))


@asynccontextmanager
async def postgres_alone(home: Home) -> AsyncIterator[BenchmarkStack]:
    """Runs only the stack's database server, with the same settings."""
    server = Postgres(
        directory=home.postgres,
        log=home.log_of("postgres"),
        port=choose_free(),
        password=secrets.token_hex(8),
        environment={**os.environ, MARKER: str(home.root)},
    )
    running = await start(server, lambda _: None)
    try:
        processes = {"postgres": psutil.Process(running.process.pid)}
        yield BenchmarkStack(processes, await _reference_database(server))
    finally:
        await asyncio.shield(asyncio.to_thread(running.stop))


async def create_toolset(stack: BenchmarkStack, model_url: str) -> None:
    """Creates the tool `bench.lookup`, which calls the model stub."""
    lookup = {
        "name": "lookup",
        "description": "Looks up an order.",
        "parameters": {"type": "object", "properties": {"order": {"type": "integer"}}, "required": ["order"]},
        "method": "GET",
        "url": _lookup_url(model_url),
        "query": {"order": "{order}"},
    }
    async with httpx.AsyncClient(timeout=60, headers={"x-api-key": stack.api_key}, trust_env=False) as client:
        toolset = {"name": "bench", "type": "http", "tools": [lookup]}
        answer = await client.post(f"{stack.base_url}/api/v1/toolsets/", json=toolset)
    if answer.status_code != 201:
        raise StackError("The benchmark's toolset wasn't created.", answer.text[:500])


def environment_of(home: Home) -> dict[str, str]:
    """Returns the environment for a stack in this home, without variables that point to other stacks."""
    another = ("_PORT", "_URL", "_HOME")
    usual = {
        name: value for name, value in os.environ.items() if not name.startswith("AES_") or not name.endswith(another)
    }
    return {**usual, "AES_HOME": str(home.root)}


async def _reference_database(server: Postgres) -> str:
    async with await psycopg.AsyncConnection.connect(server.administrator_url, autocommit=True) as connection:
        await create_database(connection, _DATABASE, owner=ADMINISTRATOR)
    return server.url(_DATABASE, ADMINISTRATOR, server.password)


def _lookup_url(model_url: str) -> str:
    return model_url.removesuffix("/v1") + "/lookup"
