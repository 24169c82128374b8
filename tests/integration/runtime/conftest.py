"""Runtime nodes on a database of their own."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Final

import pytest

from services.runtime.bootstrap import MIGRATIONS
from services.runtime.domain.tools import Tool, Toolbox
from tests.support.agent_fakes import FakeTool
from tests.support.artifact_fakes import FakeArtifacts
from tests.support.gateway import Gateway, gateway
from tests.support.memory_bus import MemoryBus
from tests.support.runtime_nodes import Node, ObedientModel
from tests.support.waiting import WITHIN, until

StartNode = Callable[..., Awaitable[Node]]
_WAITS_FOR_A_ROW: Final = """
    SELECT 1 FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock' AND wait_event IN ('transactionid', 'tuple')
"""


async def waits_for_a_row(node: Node) -> bool:
    """Whether somebody waits for a row that another transaction has locked: a session's, whose turn is changed."""
    return bool(await node.rows(_WAITS_FOR_A_ROW))


async def running_turn(node: Node, model: ObedientModel, text: str = "work") -> tuple[str, str]:
    """A session, and a turn in it whose model waits until the gate for this text is opened."""
    session = await node.create_session()
    model.shut(text)
    asked = len(model.asked)
    turn_id = await node.execute(session, text)
    await until(lambda: len(model.asked) > asked)
    return session, turn_id


@pytest.fixture
def migrations() -> Path:
    return MIGRATIONS


@pytest.fixture
def bus() -> MemoryBus:
    return MemoryBus()


@pytest.fixture
def model() -> ObedientModel:
    return ObedientModel()


@pytest.fixture
def tools() -> list[Tool]:
    # Their calls end when the test says so.
    return [
        FakeTool("echo", timeout_seconds=WITHIN),
        FakeTool("careful", safe_to_repeat=False, timeout_seconds=WITHIN),
        FakeTool("pay", safe_to_repeat=False, approval="always", timeout_seconds=WITHIN),
    ]


@pytest.fixture
def artifacts() -> FakeArtifacts:
    return FakeArtifacts(owner="alice")


@pytest.fixture
async def start_node(
    database_url: str, bus: MemoryBus, model: ObedientModel, tools: list[Tool], artifacts: FakeArtifacts
) -> AsyncIterator[StartNode]:
    """Starts further processes on the same database."""
    nodes: list[Node] = []

    async def start(*, reconciling: bool = True, present: bool = True, **settings: object) -> Node:
        node = Node(database_url, bus, model, Toolbox(*tools), artifacts, **settings)
        nodes.append(node)
        await node.start(reconciling=reconciling, present=present)
        return node

    yield start
    for node in nodes:
        await node.close()


@pytest.fixture
async def node(start_node: StartNode) -> Node:
    return await start_node()


@pytest.fixture
async def public(node: Node) -> AsyncIterator[Gateway]:
    """The public API in front of the node."""
    async with gateway() as public:
        public.bus.owners["runtime"] = node
        yield public
