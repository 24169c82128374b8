"""Knowledge in the agents' hands, and what becomes of a folder as people have it."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.api import Api, unique
from tests.e2e.peak_memory import PeakMemory
from tests.e2e.running_stack import ROOT, RunningStack
from tests.support.corpus import write_corpus
from tests.support.office_files import pdf
from tests.support.waiting import until

MOST_MEMORY = 1024**3
QUOTING = "builtin:extractive"
FILES = {
    "towers.pdf": pdf(["The harbour of Brenna.", "The white tower of Vardo was built in 1901 by Ulla Berg."]),
    "fees.csv": b"berth,fee in crowns\nnorth quay,340\nsouth quay,275\n",
    "rules.md": "# Rules\n\nNo fires on the beach of Nordvik after sunset.\n".encode("utf-16"),
}


@pytest.fixture
async def knowledge_base(api: Api) -> str:
    uploads = [("file", (name, content)) for name, content in FILES.items()]
    uploaded = (await api.http.post("/files/", files=uploads)).json()
    file_ids = [file["id"] for file in uploaded["files"]]
    chunking = {"strategy": "row", "chunk_size": 50, "chunk_overlap": 0}
    body = {"name": unique("Harbour"), "file_ids": file_ids, "chunking_strategy": chunking}
    reply = await api.http.post("/knowledge-bases/", json=body)
    assert reply.status_code == 201, reply.text
    base_id = str(reply.json()["id"])

    async def ended() -> dict[str, Any] | None:
        base = (await api.http.get(f"/knowledge-bases/{base_id}/")).json()
        return base if base["status"] in ("completed", "failed") else None

    base = await until(ended)
    assert base["status"] == "completed", base["datasource_errors"]
    return base_id


async def ask(api: Api, session_id: str, question: str) -> dict[str, Any]:
    reply = await api.execute(session_id, question)
    assert reply.status_code == 200, reply.text
    return reply.json()


async def test_an_llm_agent_answers_from_what_it_retrieved(api: Api, knowledge_base: str) -> None:
    session = await api.session(QUOTING, knowledge_bases=[knowledge_base])
    reply = await ask(api, session, "Who built the white tower?")
    assert "Ulla Berg" in reply["response"]["content"]
    [citation] = reply["response"]["citations"]
    assert (citation["knowledge_base_id"], citation["file_name"], citation["page"]) == (knowledge_base, "towers.pdf", 2)
    assert "1901" in citation["passage"]
    assert 0 < citation["score"] <= 1
    assert reply["warnings"] == []


async def test_a_react_agent_searches_and_its_citations_are_streamed(api: Api, knowledge_base: str) -> None:
    link = {"id": knowledge_base, "top_k": 1, "mode": "keyword"}
    session = await api.session(QUOTING, tools=["calculator"], knowledge_bases=[link])
    events = [event async for event in api.events(session, "What is the fee at the south quay?")]
    added = [event.data["citation"] for event in events if event.name == "turn.citation.added"]
    assert [(citation["file_name"], citation["row"]) for citation in added] == [("fees.csv", 3)]
    completed = events[-1]
    assert completed.name == "turn.completed"
    assert "275" in completed.data["response"]["content"]
    assert [call["name"] for call in completed.data["response"]["tool_calls"]] == ["knowledge_search"]
    assert completed.data["response"]["citations"] == added


async def test_after_its_knowledge_base_is_deleted_an_agent_warns_and_goes_on(api: Api, knowledge_base: str) -> None:
    plain = await api.session(QUOTING, knowledge_bases=[knowledge_base])
    acting = await api.session(QUOTING, tools=["calculator"], knowledge_bases=[knowledge_base])
    assert (await ask(api, plain, "Are fires allowed on the beach?"))["warnings"] == []
    assert (await api.http.delete(f"/knowledge-bases/{knowledge_base}/")).status_code == 204
    for session in (plain, acting):
        reply = await ask(api, session, "Are fires allowed on the beach?")
        assert reply["success"] is True
        assert reply["response"]["citations"] == []
        [warning] = reply["warnings"]
        assert knowledge_base in warning


@pytest.mark.slow(
    covered_by=(
        "integration/ingestion/parsing/test_pool.py::test_every_file_of_a_mixed_folder_is_read_or_refused_with_a_reason",
        "test_an_llm_agent_answers_from_what_it_retrieved",
    )
)
async def test_a_mixed_folder_is_searchable_but_for_its_poison(stack: RunningStack, api: Api, tmp_path: Path) -> None:
    good, poison = write_corpus(tmp_path)
    working = [part["pid"] for part in stack.services()["ingestion"]["processes"]]
    memory = PeakMemory(working)
    command = [sys.executable, str(ROOT / "aes"), "kb", "create", unique("Mixed"), str(tmp_path), "--json"]
    done = await asyncio.to_thread(
        subprocess.run, command, env=stack.environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 1, done.stderr
    assert {part["pid"] for part in stack.services()["ingestion"]["processes"]} == set(working)
    assert 0 < max(memory.read()) < MOST_MEMORY
    document = json.loads(done.stdout.splitlines()[-1])
    base = document["knowledge_base"]
    assert (base["status"], base["datasource_count"]) == ("failed", 190)
    refused = {Path(each["path"]).name for each in document["refused"]}
    failed = {
        base["datasource_snapshots"][file_id]["name"]: error for file_id, error in base["datasource_errors"].items()
    }
    assert {file.name for file in poison} == refused | failed.keys()
    assert refused == {file.name for file in poison if file.at_upload}
    codes = {file.name: file.codes for file in poison}
    assert [name for name, error in failed.items() if error["code"] not in codes[name] or not error["message"]] == []
    assert all(name in done.stderr for name in codes)

    async def finds(name: str, marker: str) -> bool:
        body = {"query": marker, "mode": "keyword", "top_k": 1}
        reply = await api.http.post(f"/knowledge-bases/{base['id']}/search/", json=body)
        return [result["file_name"] for result in reply.json()["results"]] == [name]

    assert [file.name for file in good if not await finds(file.name, file.marker)] == []
