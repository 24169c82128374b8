"""Readers of the timeline and of sessions see nothing of others'."""

import httpx
import orjson
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from tests.e2e.api import Api, configuration, new_client, unique
from tests.e2e.conftest import Caller
from tests.e2e.running_stack import RunningStack
from tests.support.waiting import WITHIN, until

PAGE = f"https://{unique('shop')}.example"


async def shown_to(client: httpx.AsyncClient, **query: str) -> list[str]:
    """The ids of events that a page shows, and that a stream shows from the beginning until it has come to now."""
    page = await client.get("/events/", params={**query, "limit": "200"})
    assert page.status_code == 200, page.text
    streamed = []
    headers = {"accept": "text/event-stream", "last-event-id": "0"}
    async with client.stream("GET", "/events/", params=query, headers=headers) as stream:
        async for line in stream.aiter_lines():
            if line.startswith("data: "):
                streamed.append(orjson.loads(line[6:])["id"])
            if line.startswith(":"):
                break
    paged = [event["id"] for event in page.json()["events"]]
    assert streamed[: len(paged)] == paged
    return paged


async def closing_code(stack: RunningStack, session: str, query: str = "", **headers: str) -> int | None:
    url = f"{stack.base_url.replace('http', 'ws', 1)}/api/v1/ws/sessions/{session}/?{query}"
    async with connect(url, additional_headers=headers, proxy=None, open_timeout=WITHIN) as socket:
        try:
            await socket.send('{"type": "ping"}')
            assert orjson.loads(await socket.recv()) == {"type": "pong"}
        except ConnectionClosed:
            return socket.close_code
    return None


@pytest.mark.rule(17)
async def test_others_see_nothing_of_a_private_session(
    stack: RunningStack, alice: Caller, bob: Caller, mallory: Caller, api: Api
) -> None:
    public = (await api.http.post("/agent/", json={
        **configuration(name=unique("Open")), "is_public": True, "allowed_origins": [PAGE]
    })).json()  # fmt: skip
    async with new_client(stack.base_url, alice.secret) as client:
        own = Api(client)
        session = await own.session()
        turn = (await own.execute(session, "hello", x_correlation_id=(label := unique()))).json()["turn_id"]

        async def logged() -> bool:
            return len(await shown_to(client, session_id=session)) >= 3

        await until(logged)
        assert len(await shown_to(client, turn_id=turn)) == len(await shown_to(client, correlation_id=label)) == 2
        assert await closing_code(stack, session, **{"x-api-key": alice.secret}) is None
    for other in (bob, mallory):
        async with new_client(stack.base_url, other.secret) as client:
            for query in ({"session_id": session}, {"turn_id": turn}, {"correlation_id": label}):
                assert await shown_to(client, **query) == []
            assert await closing_code(stack, session, **{"x-api-key": other.secret}) == 4404
    async with new_client(stack.base_url, None) as client:
        client.headers["origin"] = PAGE
        key = {"agent_key": public["agent_key"]}
        assert await shown_to(client, **key, session_id=session) == []
        assert (await client.get("/events/", params={**key, "correlation_id": label})).status_code == 403
        assert await closing_code(stack, session, f"agent_key={public['agent_key']}", origin=PAGE) == 4404
