"""Runs background tasks, restarts them, and logs their failures."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import structlog

from libs.eventing import is_bus_outage
from libs.persistence import is_outage
from libs.retry import RetryPolicy

_log = structlog.get_logger("service")
_RESTARTS: Final = RetryPolicy(first=1.0, longest=1.0)
_CLEAN_UP_SECONDS: Final = 1.0
Hook = Callable[[], Awaitable[None]]


def supervised(name: str, run: Hook, *, once: bool = False) -> asyncio.Task[None]:
    """Runs ``run`` until cancelled. Restarts it after a failure and, unless ``once`` is true, when it ends."""

    def log(problem: Exception, _attempt: int) -> None:
        if is_outage(problem) or is_bus_outage(problem):
            _log.warning("background.outage", task=name, problem=repr(problem))
        else:
            _log.error("background.failed", task=name, exc_info=problem)

    async def attempt() -> None:
        try:
            await run()
        except asyncio.CancelledError as problem:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # A library leaked the cancellation of its own task, which would end this task silently.
            raise RuntimeError("the task was cancelled unexpectedly") from problem

    async def supervise() -> None:
        await _RESTARTS.run(attempt, before_sleep=log)
        while not once:
            await asyncio.sleep(_RESTARTS.longest)
            await _RESTARTS.run(attempt, before_sleep=log)

    return asyncio.create_task(supervise(), name=name)


def log_unretrieved(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Logs the exceptions of tasks that nothing awaits: lost connections in one line, others in asyncio's format.

    The Kafka and HTTP clients leave such tasks, although they also report a lost connection to their callers.
    """
    problem = context.get("exception")
    if isinstance(problem, ConnectionError) or (isinstance(problem, BaseException) and is_bus_outage(problem)):
        _log.warning("client.task_failed", problem=repr(problem))
    else:
        loop.default_exception_handler(context)


async def unless_stopped(step: Awaitable[None], stop: asyncio.Event) -> bool:
    """Runs a startup step, which a shutdown cancels. Returns whether the step finished before a shutdown."""
    stepping = asyncio.ensure_future(step)
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({stepping, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if stepping.done():
            stepping.result()
            return not stop.is_set()
        _log.info("service.start_aborted")
        return False
    finally:
        for task in (stepping, stopping):
            task.cancel()
        # Cleanup may take a moment. A step whose cleanup hangs is abandoned.
        await asyncio.wait({stepping, stopping}, timeout=_CLEAN_UP_SECONDS)
