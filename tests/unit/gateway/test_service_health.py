"""Readiness of processes over HTTP: ready, not ready, another program, nobody there, too slow."""

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from services.gateway.adapters import health_http
from services.gateway.adapters.health_http import read_replicas
from tests.support.waiting import WITHIN


class Programs:
    """Answers for several services, by the first name of the path."""

    def __init__(self) -> None:
        self.url = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        match request.match_info["name"]:
            case "good":
                return web.json_response({"service": "runtime", "version": "0.1.0", "status": "ready", "checks": {}})
            case "waiting":
                checks = {"started": "ok", "database": "OperationalError('postgresql://gateway:p4ss@db/gateway')"}
                body = {"service": "runtime", "version": "0.1.0", "status": "not ready", "checks": checks}
                return web.json_response(body, status=503)
            case "other":
                return web.json_response({"service": "registry", "status": "ready"})
            case "page":
                return web.Response(text="<html>")
            case _:
                await asyncio.Event().wait()
                raise AssertionError


@pytest.fixture
async def programs() -> AsyncIterator[Programs]:
    found = Programs()
    application = web.Application()
    application.router.add_get("/{name}/health/ready", found.answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    found.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield found
    await runner.cleanup()


async def test_each_process_is_judged_by_its_own_answer(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_http, "_ANSWER_SECONDS", WITHIN)
    names = ("good", "waiting", "other", "page")
    with socket.socket() as taken:
        # Bound, and nobody listens: no other program gets the port meanwhile.
        taken.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{taken.getsockname()[1]}"
        addresses = [*(("runtime", f"{programs.url}/{name}") for name in names), ("runtime", nobody)]
        good, waiting, other, page, absent = (await read_replicas(addresses))["runtime"]

    assert (good.status, good.version, good.reason) == ("ready", "0.1.0", "")
    assert (waiting.status, waiting.reason.startswith("database: ")) == ("not ready", True)
    assert "p4ss" not in waiting.reason
    assert [each.status for each in (other, page, absent)] == ["unreachable"] * 3
    assert other.reason == "another program responds at this address"


async def test_a_process_that_is_too_slow_is_not_waited_for(
    programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health_http, "_ANSWER_SECONDS", 0.1)
    (slow,) = (await read_replicas([("runtime", f"{programs.url}/slow")]))["runtime"]
    assert (slow.status, slow.reason) == ("unreachable", "it didn't respond in time")


async def test_a_name_with_several_addresses_is_asked_at_each(monkeypatch: pytest.MonkeyPatch) -> None:
    async def resolved(*_: object, **__: object) -> list[tuple[object, ...]]:
        return [(0, 0, 0, "", (host, 8000)) for host in ("10.1.0.2", "10.1.0.1", "10.1.0.2")]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolved)
    assert await health_http._targets("http://runtime:8000") == ["http://10.1.0.1:8000", "http://10.1.0.2:8000"]
    assert await health_http._targets("https://runtime:8000") == ["https://runtime:8000"]
