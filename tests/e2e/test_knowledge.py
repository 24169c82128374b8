"""Knowledge in the agents' hands."""

from typing import Any

import pytest

from tests.e2e.api import Api, unique
from tests.support.office_files import pdf
from tests.support.waiting import until

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
