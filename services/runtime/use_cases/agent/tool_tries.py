"""Makes a tool call within its time limit, with retries if the tool is safe to repeat."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

import structlog

from libs.fairness import FairSemaphore
from services.runtime.domain.conversation import JsonObject
from services.runtime.domain.tools import Tool, ToolContext, ToolDefinition, ToolFailed, ToolOutput

_log = structlog.get_logger(__name__)
_FIRST_WAIT_SECONDS: Final = 1.0
_WAIT_FACTOR: Final = 4.0


class ToolTries:
    """Runs tool calls. A process has one instance, with limits on its parallel toolset calls.

    Time spent waiting counts toward a call's time limit.
    """

    def __init__(
        self,
        *,
        at_once: int = 200,
        each_company: int = 50,
        each_toolset: int = 20,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._companies = FairSemaphore(at_once, each=each_company)
        # The toolset's slot comes first, so that a toolset's queue doesn't hold slots of the company's other toolsets.
        self._toolsets = FairSemaphore(at_once * each_toolset, each=each_toolset)
        self._sleep = sleep

    async def run(self, tool: Tool, arguments: JsonObject, context: ToolContext, *, once: bool = False) -> ToolOutput:
        """Runs the call. Any failure raises ToolFailed with a message for the model. With `once`, doesn't retry."""
        definition = replace(tool.definition, retries=0) if once else tool.definition
        limit = asyncio.timeout(definition.timeout_seconds)
        waiting = True
        try:
            async with limit:
                for number in range(definition.retries + 1):
                    try:
                        async with self._slot(definition, context):
                            waiting = False
                            return await tool.call(arguments, context)
                    except ToolFailed as problem:
                        await self._before_next_try(problem, definition, number, limit)
                raise AssertionError("the last try returns or raises")
        except ToolFailed:
            raise
        except TimeoutError as problem:
            if limit.expired():
                raise _late(definition, waiting=waiting) from problem
            raise ToolFailed(f"{definition.name} failed: the call timed out.") from problem
        except Exception as problem:
            _log.exception("tool.failed", tool=definition.name, turn_id=context.turn_id, call_id=context.call_id)
            raise ToolFailed(f"{definition.name} failed: internal error ({type(problem).__name__}).") from problem

    async def _before_next_try(
        self, problem: ToolFailed, definition: ToolDefinition, number: int, limit: asyncio.Timeout
    ) -> None:
        """Waits before the next attempt. If no attempts or too little time remains, raises the failure instead."""
        if not (problem.retry and definition.safe_to_repeat and number < definition.retries):
            raise _after(problem, number + 1)
        wait = _FIRST_WAIT_SECONDS * _WAIT_FACTOR**number
        if problem.retry_after is not None:
            wait = max(wait, problem.retry_after)
        ends = limit.when()
        if ends is not None and asyncio.get_running_loop().time() + wait >= ends:
            raise _after(problem, number + 1)
        await self._sleep(wait)

    @asynccontextmanager
    async def _slot(self, definition: ToolDefinition, context: ToolContext) -> AsyncIterator[None]:
        if not definition.toolset:
            yield
            return
        company_id = context.caller.company_id
        async with (
            self._toolsets.acquire(f"{company_id}/{definition.toolset}"),
            self._companies.acquire(company_id),
        ):
            yield


def _late(definition: ToolDefinition, *, waiting: bool) -> ToolFailed:
    name, seconds = definition.name, definition.timeout_seconds
    if waiting:
        return ToolFailed(f"{name} wasn't called within {seconds:g} s, because too many other calls were running.")
    doubt = "" if definition.safe_to_repeat else " It's unknown whether the call was executed."
    return ToolFailed(f"{name} didn't finish within {seconds:g} s.{doubt}")


def _after(problem: ToolFailed, tries: int) -> ToolFailed:
    if tries == 1:
        return problem
    return ToolFailed(f"{problem} ({tries} attempts)", retry=problem.retry, retry_after=problem.retry_after)
