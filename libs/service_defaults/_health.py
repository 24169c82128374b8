"""The health of a process: liveness, readiness and metrics."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, generate_latest
from starlette.responses import JSONResponse, Response

from libs.service_defaults._release import RELEASE

_CHECK_SECONDS: Final = 3.0
Check = Callable[[], Awaitable[bool | str]]
"""Returns True if the check passes, or what the process is waiting for."""


class Readiness:
    """Named readiness checks. A process is ready when all of them pass."""

    def __init__(self) -> None:
        self._checks: dict[str, Check] = {}

    def add(self, name: str, check: Check) -> None:
        self._checks[name] = check

    async def results(self) -> dict[str, str]:
        """Runs the checks. Returns ``ok`` or the problem, by check."""
        checks = dict(self._checks)
        outcomes = await asyncio.gather(*(self._run(check) for check in checks.values()))
        return dict(zip(checks, outcomes, strict=True))

    @staticmethod
    async def _run(check: Check) -> str:
        try:
            async with asyncio.timeout(_CHECK_SECONDS):
                outcome = await check()
                return outcome if isinstance(outcome, str) else "ok" if outcome else "not yet"
        except Exception as problem:
            return repr(problem)


def health_routes(service: str, readiness: Readiness) -> APIRouter:
    """Returns the HTTP routes for liveness, readiness and metrics.

    The readiness response has the service's name, so that another program on the port isn't mistaken for the service.
    """
    router = APIRouter(include_in_schema=False)

    @router.get("/health/live")
    async def live() -> Response:
        return JSONResponse({"status": "alive"})

    @router.get("/health/ready")
    async def ready() -> Response:
        checks = await readiness.results()
        good = all(outcome == "ok" for outcome in checks.values())
        status = "ready" if good else "not ready"
        body = {"service": service, "version": RELEASE, "status": status, "checks": checks}
        return JSONResponse(body, 200 if good else 503)

    @router.get("/metrics")
    async def metrics() -> Response:
        return Response(generate_latest(REGISTRY), media_type=CONTENT_TYPE_LATEST)

    return router
