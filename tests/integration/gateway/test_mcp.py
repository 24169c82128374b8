"""A request of an MCP client that one gateway answers and another one is told to cancel."""

import asyncio

import httpx

from libs.contracts.resources.agents import Agent
from tests.integration.gateway.conftest import IN_ONE_LOOP, Replicas
from tests.integration.gateway.upstream import HELD
from tests.support.waiting import until
from tests.unit.gateway.test_protocols import AGENT

pytestmark = IN_ONE_LOOP
_VERSION = "2025-06-18"


def mcp_of(replicas: Replicas, number: int, connection: str) -> httpx.AsyncClient:
    """A client of the protocol's versions with connections, on one of the gateways."""
    headers = {
        "Authorization": f"Bearer {replicas.secret}",
        "Accept": "application/json, text/event-stream",
        "mcp-session-id": connection,
        "mcp-protocol-version": _VERSION,
    }
    port = replicas.services[number].settings.port
    return httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=60, trust_env=False)


async def test_another_gateway_cancels_the_turn_of_a_request(replicas: Replicas) -> None:
    replicas.upstream.agents["support"] = Agent.model_validate({**AGENT, "company": replicas.company_id})
    params = {"name": "ask_agent", "arguments": {"agent_key": "support", "message": HELD}}
    call = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params}

    async with (
        mcp_of(replicas, 0, "mine") as first,
        mcp_of(replicas, 1, "mine") as second,
        mcp_of(replicas, 1, "another") as stranger,
    ):
        asking = asyncio.create_task(first.post("/mcp", json=call))
        await until(lambda: replicas.work.turns)
        cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}
        # The number of a request means nothing on another connection.
        assert (await stranger.post("/mcp", json=cancelled)).status_code == 202
        assert (await second.post("/mcp", json=cancelled)).status_code == 202
        answer = await asking
    assert "The turn was cancelled." in answer.text
    assert replicas.work.cancelled == replicas.work.turns
