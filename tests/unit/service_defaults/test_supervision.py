"""Supervised tasks, repeated work, and consumers."""

import asyncio
import gc
from typing import Any, cast

import pytest
from aiohttp import ClientConnectionResetError
from aiokafka.errors import NotCoordinatorForGroupError
from psycopg import OperationalError
from structlog.testing import capture_logs

from libs.eventing import CommandRouter, IdentitySigner, KafkaBus
from libs.eventing.bus import BusUnavailable
from libs.service_defaults import repeating
from libs.service_defaults._consumers import Consumers, DeadMemberReaper
from libs.service_defaults._health import Readiness
from libs.service_defaults._supervision import log_unretrieved, supervised
from tests.support import sample_owner
from tests.support.command_records import SIGNING_KEY
from tests.support.memory_bus import MemoryBus
from tests.support.sample_owner import TakeNote
from tests.support.waiting import elapse, until


async def first_log_of(problem: BaseException) -> Any:
    async def fail() -> None:
        raise problem

    with capture_logs() as logged:
        task = supervised("work", fail)
        async with asyncio.timeout(60):
            while not logged:
                await asyncio.sleep(0)
        task.cancel()
    return logged[0]


@pytest.mark.parametrize(
    "outage", [BusUnavailable("no broker"), NotCoordinatorForGroupError(), OperationalError("the connection is lost")]
)
async def test_an_outage_is_one_warning_without_a_traceback(outage: Exception) -> None:
    logged = await first_log_of(outage)
    assert (logged["event"], logged["log_level"]) == ("background.outage", "warning")
    assert "exc_info" not in logged


async def test_any_other_failure_has_its_traceback() -> None:
    logged = await first_log_of(ZeroDivisionError())
    assert (logged["event"], logged["log_level"]) == ("background.failed", "error")
    assert isinstance(logged["exc_info"], ZeroDivisionError)


async def test_a_cancellation_that_nobody_asked_for_is_a_failure() -> None:
    logged = await first_log_of(asyncio.CancelledError())
    assert (logged["event"], logged["log_level"]) == ("background.failed", "error")
    assert "cancelled unexpectedly" in str(logged["exc_info"])


async def test_a_task_that_is_cancelled_ends() -> None:
    task = supervised("work", asyncio.Event().wait)
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()


@pytest.mark.parametrize(
    ("problem", "is_one_line"),
    [(NotCoordinatorForGroupError(), True), (ClientConnectionResetError(), True), (ZeroDivisionError(), False)],
)
async def test_exceptions_that_nobody_awaits_are_one_line_when_a_client_lost_its_connection(
    monkeypatch: pytest.MonkeyPatch, problem: Exception, is_one_line: bool
) -> None:
    loop = asyncio.get_running_loop()
    left: list[Any] = []
    monkeypatch.setattr(loop, "default_exception_handler", left.append)
    loop.set_exception_handler(log_unretrieved)

    async def fail() -> None:
        raise problem

    with capture_logs() as logged:
        task = loop.create_task(fail())
        await asyncio.wait({task})
        del task
        gc.collect()
    loop.set_exception_handler(None)
    assert ([each["event"] for each in logged], len(left)) == ((["client.task_failed"], 0) if is_one_line else ([], 1))


class Ended(Exception):
    """There is no more to do in this test."""


async def test_pauses_grow_while_there_is_nothing_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    found = iter([0, 0, 0, 3, 0, 10, 0])

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    async def action() -> int:
        try:
            return next(found)
        except StopIteration:
            raise Ended from None

    monkeypatch.setattr("libs.service_defaults.repeating.asyncio.sleep", sleep)
    with pytest.raises(Ended):
        await repeating.repeat_while_busy(action, 0.8, longest=1.1, full=10)

    # After a full batch there is none at all.
    assert pauses == [1.0, 1.1, 1.1, 0.8, 1.0, 1.0]


class _NoReaper:
    def watch(self, group: str) -> None: ...


@pytest.fixture
def readiness() -> Readiness:
    return Readiness()


@pytest.fixture
def consumers(readiness: Readiness) -> Consumers:
    bus = MemoryBus()
    reaper = cast(DeadMemberReaper, _NoReaper())
    return Consumers("notes", cast(KafkaBus, bus), bus.producer(), readiness, reaper)


@pytest.fixture
def router() -> CommandRouter:
    router = CommandRouter(None, None, IdentitySigner(SIGNING_KEY))  # type: ignore[arg-type]
    router.handle(TakeNote, sample_owner.take_note)
    return router


async def joined(readiness: Readiness) -> bool:
    return (await readiness.results())["consumer notes-commands"] == "ok"


@pytest.mark.virtual_time
async def test_a_group_is_joined_when_what_it_needs_is_there(
    consumers: Consumers, router: CommandRouter, readiness: Readiness
) -> None:
    known = asyncio.Event()

    async def wait() -> None:
        await known.wait()

    consumers.add("commands", router, after=wait)
    consumers.start(routers=True, roles=None)
    await elapse(3600)
    assert not await joined(readiness)
    known.set()
    await until(lambda: joined(readiness))
    await consumers.stop(10)
    assert all(task.done() for task in consumers.tasks[:1])


@pytest.mark.virtual_time
async def test_a_stop_does_not_wait_for_what_a_group_needs(consumers: Consumers, router: CommandRouter) -> None:
    async def never() -> None:
        await asyncio.Event().wait()

    consumers.add("commands", router, after=never)
    consumers.start(routers=True, roles=None)
    await elapse(1)
    stopped = asyncio.get_running_loop().time()
    await consumers.stop(10)
    assert asyncio.get_running_loop().time() - stopped < 1
    assert consumers.tasks[0].done()
