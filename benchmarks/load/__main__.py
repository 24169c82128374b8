"""`python -m benchmarks.load`: takes jobs as lines on stdin until it is closed.

For each job it prepares, answers `{"ready": true}`, waits for a line, works, and answers the outcome, or
`{"error": "…"}` instead of either.
"""

import asyncio
import sys
from dataclasses import asdict
from typing import Any

import orjson
import uvloop

from benchmarks.load.http_client import RequestFailed
from benchmarks.load.job import Job
from benchmarks.load.workload import Workload


def _answer(document: dict[str, Any]) -> None:
    sys.stdout.buffer.write(orjson.dumps(document) + b"\n")
    sys.stdout.buffer.flush()


async def _serve() -> None:
    while line := await asyncio.to_thread(sys.stdin.buffer.readline):
        workload = Workload(Job(**orjson.loads(line)))
        try:
            await workload.prepare()
            _answer({"ready": True})
            if not await asyncio.to_thread(sys.stdin.buffer.readline):
                return
            _answer(asdict(await workload.run()))
        except (RequestFailed, OSError) as error:
            _answer({"error": str(error)})
        finally:
            workload.close()


uvloop.run(_serve())
