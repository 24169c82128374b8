"""Background tasks that fail, and exceptions that no code awaits."""

import asyncio
import gc
from typing import Any

import pytest
from aiohttp import ClientConnectionResetError
from aiokafka.errors import NotCoordinatorForGroupError
from psycopg import OperationalError
from structlog.testing import capture_logs

from libs.eventing.bus import BusUnavailable
from libs.service_defaults._supervision import log_unretrieved, supervised


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
