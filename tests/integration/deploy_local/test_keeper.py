import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable

import psutil
import pytest

from deploy.local import keeper as keeper_module
from deploy.local.errors import PartFailed
from deploy.local.keeper import Keeper
from deploy.local.state import PartState
from tests.integration.deploy_local.conftest import ScriptPart

_DEAF = (
    "import pathlib, signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "pathlib.Path(sys.argv[1]).touch(); time.sleep(600)"
)


@pytest.fixture(autouse=True)
def short_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper_module, "_FIRST_DELAY", 0.01)


@pytest.fixture
def state() -> PartState:
    return PartState(service="script")


@pytest.fixture
async def keeper(script_part: ScriptPart, state: PartState) -> AsyncIterator[Keeper]:
    keeper = Keeper(script_part, state, lambda: None)
    yield keeper
    await keeper.stop(patience=5)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


async def test_a_started_part_is_ready_and_known_by_its_pid(keeper: Keeper, state: PartState) -> None:
    await keeper.start()
    assert state.state == "ready"
    assert state.pid is not None
    assert psutil.pid_exists(state.pid)


async def test_a_killed_part_comes_back(keeper: Keeper, state: PartState) -> None:
    await keeper.start()
    for restarts in (1, 2):
        killed = state.pid
        assert killed is not None
        os.kill(killed, signal.SIGKILL)
        await until(lambda killed=killed: state.state == "ready" and state.pid != killed)
        assert state.restarts == restarts


async def test_a_part_that_cannot_be_started_again_is_tried_until_it_can(
    keeper: Keeper, script_part: ScriptPart, state: PartState
) -> None:
    await keeper.start()
    working, script_part.script = script_part.script, "raise SystemExit(7)"
    assert state.pid is not None
    os.kill(state.pid, signal.SIGKILL)
    await until(lambda: state.restarts >= 3)
    assert "exited with code 7" in state.detail or state.state in ("preparing", "starting")
    script_part.script = working
    await until(lambda: state.state == "ready")


async def test_a_first_start_is_given_up_with_the_last_words(keeper: Keeper, script_part: ScriptPart) -> None:
    script_part.script = "raise SystemExit('no such luck')"
    with pytest.raises(PartFailed, match="exited with code 1 while starting") as caught:
        await keeper.start()
    assert "no such luck" in caught.value.problem
    assert str(script_part.command().log) in caught.value.remedy
    assert script_part.starts == 4


async def test_a_stopped_part_stays_stopped(keeper: Keeper, script_part: ScriptPart, state: PartState) -> None:
    await keeper.start()
    pid = state.pid
    await keeper.stop(patience=5)
    assert pid is not None
    assert not psutil.pid_exists(pid)
    assert (state.state, state.pid, script_part.starts) == ("stopped", None, 1)


async def test_a_part_that_does_not_listen_is_killed(keeper: Keeper, script_part: ScriptPart, state: PartState) -> None:
    script_part.script = _DEAF
    await keeper.start()
    pid = state.pid
    await keeper.stop(patience=0.2)
    assert pid is not None
    assert not psutil.pid_exists(pid)
