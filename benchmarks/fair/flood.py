"""Keeps every queue of one company full: `python -m benchmarks.fair.flood BASE_URL API_KEY FAILING_URL`."""

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

import aiohttp

from benchmarks.fair.company import Company, Unexpected, company_at
from libs.confined import give_way

_SLOW_MODEL: Final = "openai:stub-slow-2000"
_SLOW_TEXT: Final = b"The ferry leaves at seven.\n\n" * 3500
_TURNS, _STREAMS, _INGESTIONS, _UPLOADS, _WEBHOOKS = 300, 500, 4, 2, 4


async def flood(base_url: str, api_key: str, failing_url: str) -> None:
    """Runs until it is ended."""
    # A caller's own work is not what the service does for it.
    give_way()
    async with company_at(base_url, api_key) as company, asyncio.TaskGroup() as tasks:
        hooks = [{"url": failing_url, "event_types": ["*"]} for _ in range(_WEBHOOKS)]
        for hook in hooks:
            await _persistently(company.post, "/webhooks/", hook, 201)
        for number in range(_TURNS):
            tasks.create_task(_turns(company))
            if number % 10 == 0:
                await asyncio.sleep(0.1)
        for _ in range(_STREAMS):
            tasks.create_task(_stream(company))
        for number in range(_UPLOADS):
            tasks.create_task(_uploads(company, number))
        for number in range(_INGESTIONS):
            tasks.create_task(_ingestions(company, number))


async def _turns(company: Company) -> None:
    session = await _persistently(company.new_session, _SLOW_MODEL)
    path = f"/runtime/{session}/execute/"
    while True:
        await _persistently(company.post, path, {"content": "What is it?"}, 202, prefer="respond-async")


async def _stream(company: Company) -> None:
    while True:
        with contextlib.suppress(aiohttp.ClientError):
            async with company.session.get("/api/v1/events/", headers={"accept": "text/event-stream"}) as answer:
                async for _ in answer.content.iter_any():
                    pass
        await asyncio.sleep(1)


async def _uploads(company: Company, number: int) -> None:
    while True:
        content = os.urandom(50_000).hex().encode()
        await _persistently(company.upload, f"much-{number}.txt", content)


async def _ingestions(company: Company, number: int) -> None:
    settings = {"chunking_strategy": {"strategy": "markdown"}}
    while True:
        content = os.urandom(16).hex().encode() + _SLOW_TEXT
        name = f"slow-{number}-{time.monotonic_ns()}.md"
        await _persistently(company.ingest, name, content, **settings)


async def _persistently(call: Callable[..., Awaitable[Any]], *arguments: Any, **options: Any) -> Any:
    """Repeats what is refused, when it may."""
    while True:
        try:
            return await call(*arguments, **options)
        except Unexpected as problem:
            if problem.status != 429:
                raise
            await asyncio.sleep(problem.retry_after or 1.0)
        except (aiohttp.ClientError, TimeoutError):
            await asyncio.sleep(1.0)


if __name__ == "__main__":
    asyncio.run(flood(*sys.argv[1:]))
