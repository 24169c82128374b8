"""A backup made while everything runs, restored into an empty system that goes on with it."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.api import Api, configuration, new_client, unique
from tests.e2e.conftest import Caller
from tests.e2e.held_model import HeldModel
from tests.e2e.running_stack import ROOT, RunningStack, environment_of, temporary_home
from tests.support.waiting import WITHIN, until

RULES = b"# Rules\n\nNo fires on the beach of Nordvik after sunset.\n"
QUOTING = "builtin:extractive"


@pytest.fixture
def elsewhere(model: HeldModel) -> Iterator[RunningStack]:
    """A stack that was never started."""
    with temporary_home() as home:
        stack = RunningStack(home, environment_of(home, model.base_url))
        yield stack
        stack.down()


@pytest.fixture
async def writing(as_alice: Api) -> AsyncIterator[list[tuple[str, str]]]:
    """Turns that go on all the while: session and id of each that was answered."""
    session, done = await as_alice.session(QUOTING), list[tuple[str, str]]()

    async def go_on() -> None:
        while True:
            reply = await as_alice.execute(session, f"Turn {len(done)}.")
            assert reply.status_code == 200, reply.text
            done.append((session, reply.json()["turn_id"]))

    task = asyncio.create_task(go_on())
    yield done
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def knowledge_base(api: Api) -> str:
    uploaded = (await api.http.post("/files/", files=[("file", ("rules.md", RULES))])).json()
    body = {"name": unique("Rules"), "file_ids": [uploaded["id"]]}
    base = str((await api.http.post("/knowledge-bases/", json=body)).json()["id"])

    async def completed() -> bool:
        return bool((await api.http.get(f"/knowledge-bases/{base}/")).json()["status"] == "completed")

    await until(completed)
    return base


async def found(api: Api, base: str) -> list[str]:
    reply = await api.http.post(f"/knowledge-bases/{base}/search/", json={"query": "fires on the beach"})
    assert reply.status_code == 200, reply.text
    return [result["file_name"] for result in reply.json()["results"]]


@pytest.mark.slow(
    covered_by=("integration/cli/test_backup.py::test_there_and_back", "test_nothing_is_restored_over_something")
)
async def test_a_restored_system_goes_on(
    stack: RunningStack, elsewhere: RunningStack, alice: Caller, as_alice: Api, api: Api, writing: Any, tmp_path: Path
) -> None:
    agent = (await as_alice.http.post("/agent/", json=configuration(QUOTING, name=unique("Desk")))).json()
    session = await as_alice.session(QUOTING)
    first = (await as_alice.execute(session, "The lamp is green.")).json()
    content = b"berth,fee\nnorth quay,340\n"
    place = f"/sessions/{session}/artifacts/"
    artifact = (await as_alice.http.post(place, files={"file": ("fees.csv", content)})).json()
    base = await knowledge_base(api)
    key = {"idempotency_key": unique()}
    once = (await as_alice.execute(session, "Said once.", **key)).json()
    await until(lambda: len(writing) >= 3)

    answered = list(writing)
    made = await asyncio.to_thread(stack.aes, "backup", str(tmp_path))
    assert len(writing) > len(answered), "turns went on meanwhile"
    restored = await asyncio.to_thread(elsewhere.aes, "restore", str(tmp_path))
    await asyncio.to_thread(elsewhere.up)

    assert made["bytes"] > 0
    assert restored["published_again"]["runtime"] > 0
    async with new_client(elsewhere.base_url, alice.secret) as client:
        there = Api(client)
        before = await as_alice.messages(session)
        assert await there.messages(session) == before
        # The repeat of a call that was answered there is answered here as it was, and nothing is carried out.
        assert (await there.execute(session, "Said once.", **key)).json() == once
        assert await there.messages(session) == before
        known = (await client.get(f"/agent/{agent['id']}/")).json()
        assert known["config_hash"] == agent["config_hash"]
        link = (await client.get(f"/artifacts/{artifact['artifact_id']}/")).json()["url"]
        async with httpx.AsyncClient(timeout=WITHIN, trust_env=False) as anonymous:
            assert (await anonymous.get(link)).content == content
        turn = await there.turn_ended(session, first["turn_id"])
        assert turn["status"] == "completed"
        for busy, turn_id in answered:
            assert (await there.turn_ended(busy, turn_id))["status"] == "completed"
        reply = await there.execute(session, "Which colour has the lamp?")
        assert reply.status_code == 200, reply.text
        assert len(await there.messages(session)) == len(before) + 2
    # Whoever owned the knowledge base there owns it here, by the same key.
    async with new_client(elsewhere.base_url, stack.api_key) as client:
        there = Api(client)
        assert await found(there, base) == ["rules.md"]
        assert await found(there, await knowledge_base(there)) == ["rules.md"]


def test_nothing_is_restored_over_something(stack: RunningStack, tmp_path: Path) -> None:
    for arguments, told in (
        (["restore", str(tmp_path)], "The embedded stack is running."),
        (["restore", str(tmp_path / "nowhere")], ""),
    ):
        done = subprocess.run(
            [sys.executable, str(ROOT / "aes"), *arguments, "--json"],
            env=stack.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode != 0
        if told:
            assert json.loads(done.stdout)["error"]["message"] == told
