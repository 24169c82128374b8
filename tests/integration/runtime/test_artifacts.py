"""Turns with files: what is stored of them, what later turns see, and files that agents make across a crash."""

from __future__ import annotations

from typing import Any

import pytest

from services.runtime.adapters.tools.artifacts.artifact_create import ArtifactCreate
from services.runtime.domain.conversation import UserMessage
from services.runtime.domain.tools import Tool
from tests.support.agent_fakes import answering, calling
from tests.support.artifact_fakes import FakeArtifacts
from tests.support.runtime_nodes import Node, ObedientModel, person
from tests.support.waiting import until


@pytest.fixture
def tools(artifacts: FakeArtifacts) -> list[Tool]:
    return [ArtifactCreate(artifacts)]


def about(text: str, *files: str) -> list[dict[str, Any]]:
    blocks = [{"type": "file", "source": {"artifact_id": file}} for file in files]
    return [{"type": "text", "text": text}, *blocks]


async def messages(node: Node, session_id: str) -> list[dict[str, Any]]:
    page = await node.reads.messages(session_id, person(), limit=50, offset=0)
    return [message.model_dump() for message in page.messages]


async def test_a_conversation_about_a_file(start_node, model: ObedientModel, artifacts: FakeArtifacts) -> None:
    node = await start_node()
    session = await node.create_session()
    note = artifacts.put("note.txt", "The ferry leaves at nine.", session_id=session)
    first = await node.execute(session, about("When?", note.artifact_id))
    await node.ended(first)
    second = await node.execute(session, "Sure?")
    [turn] = await node.ended(second)
    assert turn["status"] == "completed"
    for request in model.requests:
        assert "leaves at nine" in next(m.text for m in request.messages if isinstance(m, UserMessage))
    asked = (await messages(node, session))[0]
    assert asked["content"] == "When?"
    assert asked["content_blocks"][1] == {
        "type": "file",
        "source": {"artifact_id": note.artifact_id},
        "name": "note.txt",
        "content_type": "text/plain",
        "processing_strategy": "rag_indexing",
    }
    other = await start_node()
    third = await other.execute(session, "And now?")
    await other.ended(third)
    assert "leaves at nine" in next(m.text for m in model.requests[-1].messages if isinstance(m, UserMessage))


async def test_a_file_made_before_a_crash_is_not_made_again(
    start_node, model: ObedientModel, artifacts: FakeArtifacts
) -> None:
    """The worker dies when the file exists and the call's result is not recorded yet."""
    dead, other = await start_node(), await start_node()
    session = await dead.create_session(agent_type="react_agent", tools=["artifact_create"])
    model.scripts["work"] = [calling(("artifact_create", {"name": "a.md", "content": "x"})), answering("done")]
    create = artifacts.create

    async def create_and_die(*where: Any, **what: Any) -> Any:
        made = await create(*where, **what)
        artifacts.create = create  # type: ignore[method-assign]
        dead.database.down = True
        return made

    artifacts.create = create_and_die  # type: ignore[assignment, method-assign]
    turn_id = await dead.execute(session, "work")
    await until(artifacts.generated)
    await dead.crash()
    [turn] = await other.ended(turn_id)
    [made] = artifacts.generated()
    assert (turn["status"], turn["attempt"]) == ("completed", 2)
    reply = (await other.events(turn_id))[-1][1]["response"]
    assert [artifact["artifact_id"] for artifact in reply["artifacts"]] == [made.facts.artifact_id]
    assert [call["status"] for call in reply["tool_calls"]] == ["completed"]
    assert artifacts.asked.count("create") == 2
