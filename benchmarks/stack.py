"""The embedded stack of a benchmark: in a home of its own, as shipped, gone at the end."""

import asyncio
import os
import secrets
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx
import psutil
import psycopg

from deploy.local.control import development_key, purge, take_down
from deploy.local.credentials import Credentials
from deploy.local.errors import StackError
from deploy.local.foreground import start
from deploy.local.home import PROJECT_ROOT, Home
from deploy.local.ports import choose_free
from deploy.local.postgres import ADMINISTRATOR, Postgres, create_database
from deploy.local.processes import MARKER
from deploy.local.stack import postgres_of
from deploy.local.state import StackState

SUPERVISOR = "deploy.local.supervisor"
"""The module that runs what `aes up` starts."""
_DATABASE = "reference"
_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class BenchmarkStack:
    processes: dict[str, psutil.Process]
    reference_database: str
    """URL of an empty database in the stack's PostgreSQL."""
    gateway_port: int = 0
    api_key: str = ""


def benchmark_home(name: str = "benchmark") -> Home:
    """Beside the state of the stack that people use, sharing nothing with it but the downloads."""
    usual = Home.from_environment()
    usual.create()
    home = Home(usual.root / name)
    home.root.mkdir(exist_ok=True)
    # PostgreSQL may have to run as another user, who must be able to pass through.
    home.root.chmod(0o711)
    if not home.cache.exists():
        home.cache.symlink_to(usual.cache, target_is_directory=True)
    home.create()
    return home


def remove(home: Home) -> None:
    """Ends all processes of the home and deletes its state."""
    take_down(home, lambda _: None)
    purge(home)


@asynccontextmanager
async def whole_stack(home: Home, model_url: str, supervisor: str = SUPERVISOR) -> AsyncIterator[BenchmarkStack]:
    """Everything that `aes up` starts, or another module that runs a supervisor; the stub is its model."""
    environment = environment_of(home) | {"OPENAI_BASE_URL": model_url, "OPENAI_API_KEY": "not-needed"}
    # The limit is looked at as usual, and far above the sessions of the company that has grown.
    environment |= {"AES_OUTBOUND_NETWORKS": "127.0.0.0/8", "AES_COMPANY_SESSIONS": str(10**9)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", supervisor, cwd=PROJECT_ROOT, env=environment, stdout=asyncio.subprocess.DEVNULL
    )
    try:
        while (state := StackState.read(home.state_file)).phase != "running":
            if process.returncode is not None:
                raise StackError(f"The stack did not start. {state.error}", f"Its logs are in {home.logs}")
            await asyncio.sleep(_POLL_SECONDS)
        yield await _running(home, state)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
        await asyncio.shield(asyncio.to_thread(take_down, home, lambda _: None))


async def _running(home: Home, state: StackState) -> BenchmarkStack:
    pids = {name: part.pid for name, part in state.parts.items() if part.pid is not None}
    postgres = postgres_of(home, Credentials.load_or_create(home.credentials_file))
    return BenchmarkStack(
        {name: psutil.Process(pid) for name, pid in pids.items()},
        await _reference_database(postgres),
        gateway_port=int(state.base_url.rpartition(":")[2]),
        api_key=await asyncio.to_thread(development_key, home),
    )


def lookup_url(model_url: str) -> str:
    """The target of the tool `bench.lookup`, which the model's stub serves."""
    return model_url.removesuffix("/v1") + "/lookup"


async def create_toolset(stack: BenchmarkStack, model_url: str) -> None:
    lookup = {
        "name": "lookup",
        "description": "Looks up an order.",
        "parameters": {"type": "object", "properties": {"order": {"type": "integer"}}, "required": ["order"]},
        "method": "GET",
        "url": lookup_url(model_url),
        "query": {"order": "{order}"},
    }
    url = f"http://127.0.0.1:{stack.gateway_port}/api/v1/toolsets/"
    async with httpx.AsyncClient(timeout=60, headers={"x-api-key": stack.api_key}, trust_env=False) as client:
        answer = await client.post(url, json={"name": "bench", "type": "http", "tools": [lookup]})
    if answer.status_code != 201:
        raise StackError("The toolset of the benchmark was not created.", answer.text[:500])


@asynccontextmanager
async def postgres_alone(home: Home) -> AsyncIterator[BenchmarkStack]:
    """Environment of the reference app, in the settings of the whole stack."""
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


async def _reference_database(server: Postgres) -> str:
    async with await psycopg.AsyncConnection.connect(server.administrator_url, autocommit=True) as connection:
        await create_database(connection, _DATABASE, owner=ADMINISTRATOR)
    return server.url(_DATABASE, ADMINISTRATOR, server.password)


def environment_of(home: Home) -> dict[str, str]:
    """The environment of a stack in this home, with nothing that names another one's places."""
    usual = {name: value for name, value in os.environ.items() if not _names_a_place(name)}
    return {**usual, "AES_HOME": str(home.root)}


def _names_a_place(variable: str) -> bool:
    """Whether the variable belongs to some other stack: its ports, its addresses, its databases."""
    return variable.startswith("AES_") and variable.endswith(("_PORT", "_URL", "_HOME"))
