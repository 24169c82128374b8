"""The scripts that move samples of other services' exports, run as people run them, twice."""

import asyncio
import json
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.api import Api
from tests.e2e.conftest import Caller
from tests.e2e.running_stack import ROOT, RunningStack
from tests.support.waiting import until

SCRIPTS = ROOT / "examples" / "migrations"


@dataclass
class Moved:
    """``said`` is what the first run printed, ``ids`` the ledger: new ids by kind and old id."""

    said: str
    ids: dict[tuple[str, str], str]

    def one(self, kind: str, old_id: str = "") -> str:
        [found] = [new for (what, old), new in self.ids.items() if what == kind and old_id in old]
        return found


async def run(stack: RunningStack, key: str, script: str, export: Path, *options: str) -> str:
    command = [sys.executable, str(SCRIPTS / script), stack.base_url, str(export), *options]
    process = await asyncio.create_subprocess_exec(
        *command,
        # As if the client were installed.
        env={**os.environ, "AES_API_KEY": key, "PYTHONPATH": str(ROOT / "clients" / "python")},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(120):
        out, errors = await process.communicate()
    assert process.returncode == 0, out.decode() + errors.decode()
    return out.decode()


async def moved_twice(
    stack: RunningStack, api: Api, key: str, directory: Path, script: str, sample: str, *options: str
) -> Moved:
    export = directory / sample
    shutil.copy(SCRIPTS / sample, export)
    said = await run(stack, key, script, export, *options)
    ledger = export.with_name(sample + ".moved.json")
    entries = json.loads(ledger.read_text())
    before = await counted(api)
    again = await run(stack, key, script, export, *options)
    assert "Moved " not in again
    # Also when the ledger was lost, as long as the service remembers the keys.
    ledger.unlink()
    await run(stack, key, script, export, *options)
    assert json.loads(ledger.read_text()) == entries
    assert await counted(api) == before
    kinds = ("agent", "session", "file", "collection", "collected files", "knowledge base")
    ids = {}
    for entry, new_id in entries.items():
        rest = entry.partition(" ")[2]
        kind = max((each for each in kinds if rest.startswith(each + " ")), key=len)
        ids[kind, rest.removeprefix(kind + " ")] = new_id
    return Moved(said, ids)


async def counted(api: Api) -> dict[str, int]:
    places = ("sessions", "files", "collections", "knowledge-bases")
    totals = {place: (await api.http.get(f"/{place}/", params={"limit": 1})).json()["total"] for place in places}
    return {**totals, "agents": len((await api.http.get("/agent/")).json())}


async def said_in(api: Api, session: str) -> list[tuple[str, str]]:
    return [(each["role"], each["content"]) for each in await api.messages(session)]


async def searchable(api: Api, base: str) -> None:
    async def ended() -> dict[str, Any] | None:
        found: dict[str, Any] = (await api.http.get(f"/knowledge-bases/{base}/")).json()
        return found if found["status"] in ("completed", "failed") else None

    assert (await until(ended))["status"] == "completed"


@pytest.fixture
def mover(mallory: Caller) -> str:
    return mallory.secret


async def test_assistants_threads_and_vector_stores_of_openai(
    stack: RunningStack, as_mallory: Api, mover: str, tmp_path: Path
) -> None:
    api, files = as_mallory, ("--files", str(SCRIPTS / "openai-files"))
    options = (*files, "--model", "builtin:extractive")
    script, sample = "from_openai_assistants.py", "openai-assistants.json"
    moved = await moved_twice(stack, api, mover, tmp_path, script, sample, *options)
    for left_out in (
        "put receipt.png in the directory",
        "code_interpreter has no equivalent",
        "skipped a part of type image_file",
    ):
        assert left_out in moved.said
    base = moved.one("knowledge base")
    desk = (await api.http.get(f"/agent/{moved.one('agent', 'asst_9kQ2')}/")).json()["system_config"]
    assert (desk["agent_type"], desk["client_tools"][0]["name"]) == ("react_agent", "free_seats")
    assert [each if isinstance(each, str) else each["id"] for each in desk["knowledge_bases"]] == [base]
    letters = (await api.http.get(f"/agent/{moved.one('agent', 'asst_3pZ8')}/")).json()["system_config"]
    assert letters["output_schema"]["required"] == ["kind", "amount"]
    session = moved.one("session", "thread_b7Wc")
    said = await said_in(api, session)
    assert [role for role, _ in said] == ["user", "assistant", "user", "assistant"]
    assert said[0][1] == "What does the crossing to Vardo cost with a car?"
    await searchable(api, base)
    reply = (await api.execute(session, "Where do the ferries leave from in Skarholm?")).json()
    assert "north quay" in reply["response"]["content"]
    assert len(await said_in(api, session)) == 6


async def test_an_agent_file_of_letta(stack: RunningStack, as_mallory: Api, mover: str, tmp_path: Path) -> None:
    api, options = as_mallory, ("--model", "openai:stub-echo")
    moved = await moved_twice(stack, api, mover, tmp_path, "from_letta.py", "letta-agent.af", *options)
    desk = (await api.http.get(f"/agent/{moved.one('agent')}/")).json()["system_config"]
    assert "She travels with a dog" in desk["system_prompt"]
    assert [tool["name"] for tool in desk["client_tools"]] == ["crossing_state"]
    assert desk["llm_config"]["temperature"] == 0.7
    session = moved.one("session")
    # A call is a message without text.
    assert await said_in(api, session) == [
        ("user", "Does crossing 4711 run today, and may my dog come along?"),
        ("assistant", ""),
        ("tool", "Crossing 4711 leaves at 16:10."),
        ("assistant", "It leaves at 16:10, and dogs travel free."),
        ("user", "Thank you. I will take the car as well."),
    ]
    await searchable(api, moved.one("knowledge base"))
    reply = (await api.execute(session, "Goodbye")).json()
    assert reply["response"]["content"] == "You said: Goodbye"


async def test_assistants_and_threads_of_langgraph(
    stack: RunningStack, as_mallory: Api, mover: str, tmp_path: Path, model: Any
) -> None:
    api, options = as_mallory, ("--model", "openai:stub-echo")
    sample = "langgraph-threads.json"
    moved = await moved_twice(stack, api, mover, tmp_path, "from_langgraph.py", sample, *options)
    assert "skipped settings: max_search_results" in moved.said
    assert "skipped pending interrupts" in moved.said
    desk = (await api.http.get(f"/agent/{moved.one('agent')}/")).json()["system_config"]
    assert desk["system_prompt"] == "You answer passengers of the Skarholm Line."
    session, question = moved.one("session", "5c0a"), "And tomorrow?"
    assert (await api.execute(session, question)).status_code == 200
    # The model is given the whole conversation, with the call and its result.
    [asked] = [body for body in model.asked(question) if len(body["messages"]) > 4]
    roles = [message["role"] for message in asked["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert asked["messages"][3]["content"] == "leaves at 16:10"
    interrupted = await api.messages(moved.one("session", "77aa"))
    assert [block["type"] for block in interrupted[0]["content_blocks"]] == ["text", "image_url"]
    assert len(interrupted) == 1
