"""The gateway without a bus: reads work, writes are refused quickly."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from deploy.local.ports import choose_free
from libs.contracts.identifiers import new_id
from services.gateway.administration import administration, ensure_development_key
from tests.integration.gateway.conftest import client_of, gateway_on
from tests.support.gateway import error_of
from tests.support.waiting import until


@pytest.fixture
async def cut_off(database_url: str) -> AsyncIterator[httpx.AsyncClient]:
    service = gateway_on(database_url, f"127.0.0.1:{choose_free()}", "")
    running = asyncio.create_task(service.run())

    async def answers() -> bool:
        return (await service.readiness.results())["database"] == "ok" and await serves()

    async def serves() -> bool:
        try:
            async with httpx.AsyncClient(timeout=30) as probe:
                return (await probe.get(f"http://127.0.0.1:{service.settings.port}/health/live")).status_code == 200
        except httpx.TransportError:
            return False

    await until(answers)
    async with client_of(service, await ensure_development_key(database_url)) as client:
        yield client
    service.stop()
    await running


async def test_reads_work_and_writes_are_refused_with_advice(cut_off: httpx.AsyncClient) -> None:
    assert (await cut_off.get("/me/")).status_code == 200
    refused = await cut_off.post(f"/runtime/{new_id()}/execute/", json={"content": "hello"})
    assert (refused.status_code, error_of(refused)["type"]) == (503, "service_unavailable")
    assert int(refused.headers["retry-after"]) > 0


async def test_a_revocation_counts_at_once_although_nobody_can_be_told(
    cut_off: httpx.AsyncClient, database_url: str
) -> None:
    made = (await cut_off.post("/api-keys/", json={})).json()
    headers = {"x-api-key": made["secret"]}
    assert (await cut_off.get("/me/", headers=headers)).status_code == 200
    async with administration(database_url) as gateway:
        await gateway.revoke_key(made["id"])
    assert (await cut_off.get("/me/", headers=headers)).status_code == 401
