"""Changes of sessions: metadata, an agent for those opened without, messages between turns; and turns with a place."""

from __future__ import annotations

from typing import Any

from libs.contracts.identifiers import new_id
from libs.contracts.resources.sessions import (
    NO_AGENT,
    AddMessages,
    CreateSession,
    Session,
    SessionBeginning,
    UpdateSession,
)
from libs.contracts.resources.turns import SESSION_MOVED_ON, ExecuteTurn, TurnRequest
from services.runtime.domain.conversation import AssistantMessage, ToolMessage, UserMessage
from tests.integration.runtime.conftest import StartNode
from tests.integration.runtime.test_beginnings import AGENT, CALLED, RESULT, beginning, said, texts
from tests.support.runtime_nodes import Node, ObedientModel, person

OTHER: dict[str, Any] = {**AGENT, "name": "Other", "system_prompt": "Be brief."}


async def without_agent(node: Node, **more: Any) -> str:
    session = new_id()
    await node.deliver(CreateSession(session_id=session, agent_config=AGENT, config_hash=NO_AGENT, **more))
    return session


async def change(node: Node, session: str, **changes: Any) -> tuple[str, dict[str, Any]]:
    caller = changes.pop("caller", None)
    return await node.outcome(await node.deliver(UpdateSession(session_id=session, **changes), caller))


async def add(node: Node, session: str, *messages: Any, **how: Any) -> tuple[str, dict[str, Any]]:
    return await node.outcome(await node.deliver(AddMessages(session_id=session, messages=list(messages)), **how))


def kind_of(refused: tuple[str, dict[str, Any]]) -> tuple[str, str]:
    return refused[0], refused[1]["error"]["type"]


async def shown(node: Node, session: str) -> Session:
    found = await node.reads.session(session, person())
    assert found is not None
    return found


async def test_metadata_is_replaced_as_a_whole(node: Node) -> None:
    session = await without_agent(node, metadata={"ticket": "1", "kept": "no"})
    for metadata in ({"ticket": "2"}, {}):
        assert (await change(node, session, metadata=metadata))[0] == "session.updated"
        assert ((await shown(node, session)).metadata or {}) == metadata
    events = await node.rows("SELECT type, sequence FROM outbox WHERE subject = %s ORDER BY sequence", session)
    names = ["session.created.v1", "session.updated.v1", "session.updated.v1"]
    assert events == [(f"aes.runtime.{name}", number) for number, name in enumerate(names, 1)]


async def test_a_session_without_metadata_shows_none(node: Node) -> None:
    session = await node.create_session()
    assert await node.rows("SELECT metadata FROM sessions WHERE id = %s", session) == [(None,)]
    found = await shown(node, session)
    assert found.metadata is None
    assert "metadata" not in found.model_dump()


async def test_the_first_agent_that_is_set_stays(node: Node, model: ObedientModel) -> None:
    session = await without_agent(node)
    agent = SessionBeginning(agent_config=OTHER, config_hash="other", agent_id="agent-1")
    assert (await change(node, session, agent=agent))[0] == "session.updated"
    found = await shown(node, session)
    assert (found.agent_id, found.config_hash, found.agent_config["name"]) == ("agent-1", "other", "Other")
    assert kind_of(await change(node, session, agent=beginning())) == ("update_session.rejected", "conflict_error")
    await node.ended(await node.execute(session, "hello"))
    assert model.requests[-1].system == "Be brief."
    session = await without_agent(node)
    await node.ended(await node.execute(session, "hello"))
    # With a turn it gets no agent.
    assert kind_of(await change(node, session, agent=beginning())) == ("update_session.rejected", "conflict_error")


async def test_messages_between_turns_are_what_the_next_turn_is_given(
    start_node: StartNode, model: ObedientModel
) -> None:
    node, other = await start_node(), await start_node()
    session = await node.create_session()
    await node.ended(await node.execute(session, "one"))
    name, updated = await add(node, session, said("user", "two"), CALLED, RESULT)
    assert name == "session.updated"
    page = await node.reads.messages(session, person(), limit=9, offset=2)
    assert [each.model_dump() for each in page.messages] == updated["messages"]
    said_now = [(each.role, each.content) for each in page.messages]
    assert said_now == [("user", "two"), ("assistant", ""), ("tool", "noon")]
    for process in (node, other):
        await process.ended(await process.execute(session, "go on"))
        kinds = [type(message) for message in model.requests[-1].messages]
        assert kinds[:6] == [UserMessage, AssistantMessage, UserMessage, AssistantMessage, ToolMessage, UserMessage]
    assert texts(model)[:4] == ["one", "re: one", "two", ""]


async def test_messages_are_added_once(node: Node) -> None:
    session, command_id = await node.create_session(), new_id()
    for _ in range(2):
        name, _ = await add(node, session, said("user", "hello"), command_id=command_id)
        assert name == "session.updated"
    assert await node.history(session) == [("user", "hello")]


async def test_nothing_is_added_while_a_turn_is_under_way_or_the_session_ends(node: Node, model: ObedientModel) -> None:
    session = await node.create_session()
    model.shut("slow")
    turn = await node.execute(session, "slow")
    assert kind_of(await add(node, session, said("user", "hello"))) == ("add_messages.rejected", "conflict_error")
    deletion = await node.delete(session)
    model.open("slow")
    assert kind_of(await add(node, session, said("user", "hello")))[0] == "add_messages.rejected"
    await node.outcome(deletion)
    assert await node.names(turn)


async def test_a_fork_has_messages_that_were_added(node: Node, model: ObedientModel) -> None:
    session = await node.create_session()
    first = await node.execute(session, "one")
    await node.ended(first)
    await add(node, session, said("user", "two"), said("assistant", "re: two"), said("user", "three"))
    whole, before = await node.fork(session), await node.fork(session, first)
    said_first = [("user", "one"), ("assistant", "re: one")]
    assert await node.history(before) == said_first
    assert await node.history(whole) == [*said_first, ("user", "two"), ("assistant", "re: two"), ("user", "three")]
    await node.ended(await node.execute(whole, "four"))
    assert texts(model) == ["one", "re: one", "two", "re: two", "three", "four"]


async def test_a_turn_is_refused_unless_it_gets_its_place(node: Node) -> None:
    session = await node.create_session()

    async def at(position: int) -> str:
        request = TurnRequest(position=position)
        return await node.deliver(ExecuteTurn(session_id=session, content="hello", request=request))

    assert (await node.ended(await at(0)))[0]["status"] == "completed"
    late = await node.outcome(await at(0))
    await add(node, session, said("user", "two"))
    for moved in (late, await node.outcome(await at(1))):
        assert kind_of(moved) == ("execute_turn.rejected", "conflict_error")
        assert moved[1]["error"]["details"][0]["type"] == SESSION_MOVED_ON
    assert (await node.ended(await at(2)))[0]["position"] == 2
