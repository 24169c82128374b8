"""A webhook made over REST, a turn, and the example receiver, which verifies what it is sent."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from deploy.local.ports import choose_free
from services.gateway.domain.accounts import ALL_SCOPES
from tests.e2e.api import Api, new_client, unique
from tests.e2e.conftest import make_caller, make_company
from tests.e2e.running_stack import RECEIVERS, ROOT, RunningStack
from tests.support.waiting import WITHIN, until

EXAMPLE = ROOT / "examples" / "receive_webhooks.py"


@asynccontextmanager
async def receiver(port: int, secret: str, last: str) -> AsyncIterator[asyncio.subprocess.Process]:
    command = (sys.executable, str(EXAMPLE), "--host", RECEIVERS, "--port", str(port), "--until", last)
    environment = {**os.environ, "WEBHOOK_SECRET": secret}
    process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=asyncio.subprocess.PIPE)

    async def listens() -> bool:
        try:
            _, writer = await asyncio.open_connection(RECEIVERS, port)
        except OSError:
            return False
        writer.close()
        return True

    try:
        await until(listens)
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def printed(process: asyncio.subprocess.Process) -> list[str]:
    """The types of the events that the receiver took until it ended."""
    async with asyncio.timeout(WITHIN):
        output, _ = await process.communicate()
    assert process.returncode == 0
    return [line.split()[2] for line in output.decode().splitlines()]


@pytest.fixture
async def owner(stack: RunningStack) -> AsyncIterator[Api]:
    """A caller with a company of its own, since a webhook gets the turns of the whole company."""
    caller = make_caller(stack, make_company(stack), "owner", ALL_SCOPES)
    async with new_client(stack.base_url, caller.secret) as client:
        yield Api(client)


async def test_the_events_of_a_turn_reach_a_receiver_that_verifies_them(owner: Api, as_mallory: Api) -> None:
    port = choose_free()
    wanted = {"url": f"http://{RECEIVERS}:{port}/", "event_types": ["turn.*"], "description": unique()}
    made = await owner.http.post("/webhooks/", json=wanted)
    assert made.status_code == 201, made.text
    place, secret = f"/webhooks/{made.json()['id']}", made.json()["secret"]
    session = await owner.session()
    # Nobody listens yet: the first attempt fails, and is repeated 5 s later.
    await owner.execute(session, "hello")

    async def attempted() -> bool:
        found = (await owner.http.get(f"{place}/deliveries/")).json()["deliveries"]
        return any(each["attempts"] for each in found)

    await until(attempted)
    async with receiver(port, secret, "turn.completed") as process:
        names = await printed(process)
    assert names == ["turn.started", "turn.completed"]
    async with receiver(port, secret, "webhook.test") as process:
        assert (await owner.http.post(f"{place}/test/")).status_code == 200
        assert await printed(process) == ["webhook.test"]

    async def all_delivered() -> bool:
        found = (await owner.http.get(f"{place}/deliveries/")).json()["deliveries"]
        return {each["status"] for each in found} == {"delivered"}

    assert (await as_mallory.http.get(f"{place}/")).status_code == 404
    await until(all_delivered)
    assert (await owner.http.delete(f"{place}/")).status_code == 204
