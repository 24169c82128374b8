"""Forked sessions: what is copied, whose they are, and files of the session that they come from."""

from __future__ import annotations

from libs.contracts.identifiers import new_id
from services.runtime.domain.conversation import AssistantMessage, UserMessage
from services.runtime.domain.models import ModelFailed
from tests.support.artifact_fakes import FakeArtifacts
from tests.support.runtime_nodes import Node, ObedientModel, person


def exchanges(*questions: str) -> list[tuple[str, str]]:
    return [entry for text in questions for entry in (("user", text), ("assistant", f"re: {text}"))]


async def talk(node: Node, session: str, *questions: str) -> list[str]:
    turns = [await node.execute(session, question) for question in questions]
    await node.ended(*turns)
    return turns


def seen(model: ObedientModel) -> list[str]:
    """The texts of the messages that the model was given last."""
    return [m.text for m in model.requests[-1].messages if isinstance(m, UserMessage | AssistantMessage)]


async def test_a_fork_begins_with_the_history_and_goes_on_by_itself(node: Node, model: ObedientModel) -> None:
    source = await node.create_session(system_prompt="Be kind.")
    turns = await talk(node, source, "one", "two", "three")
    fork = await node.fork(source, turns[1])
    name, created = await node.outcome(fork)
    assert (name, created["session_id"], created["forked_from"]) == ("session.created", fork, source)
    assert (created["config_hash"], created["owner_id"]) == ("hash", "alice")
    assert await node.history(fork) == exchanges("one", "two")
    [next_turn] = await talk(node, fork, "other")
    assert seen(model) == ["one", "re: one", "two", "re: two", "other"]
    assert model.requests[-1].system == "Be kind."
    assert (await node.turn(next_turn))["position"] == 2
    assert await node.history(fork) == exchanges("one", "two", "other")
    assert len(await node.history(source)) == 6
    session, original = [await node.reads.session(each, person()) for each in (fork, source)]
    assert (session.forked_from, original.forked_from) == (source, None)
    assert session.agent_config == original.agent_config


async def test_a_fork_for_a_time_is_not_listed_and_expires(node: Node) -> None:
    source = await node.create_session()
    await talk(node, source, "one")
    _, created = await node.outcome(fork := await node.fork(source, expires_after=3600))
    assert created["listed"] is False
    listed = await node.reads.sessions(person(), limit=9, offset=0)
    assert [session.session_id for session in listed.sessions] == [source]
    due = "SELECT expires_at BETWEEN now() + interval '50 min' AND now() + interval '1 h' FROM sessions WHERE id = %s"
    assert await node.rows(due, fork) == [(True,)]
    assert await node.rows(due, source) == [(None,)]


async def test_a_fork_has_the_history_before_a_turn(node: Node, model: ObedientModel) -> None:
    source = await node.create_session()
    model.scripts["bad"] = [ModelFailed("no")]
    first, failed, last = await talk(node, source, "one", "bad", "two")
    for turn, expected in ((first, []), (failed, exchanges("one")), (last, exchanges("one"))):
        fork = await node.fork(source, before=turn)
        assert await node.history(fork) == expected
    await talk(node, fork, "two")
    assert seen(model) == ["one", "re: one", "two"]
    name, refused = await node.outcome(await node.fork(source, before=new_id()))
    assert (name, refused["error"]["message"]) == ("fork_session.rejected", "There is no turn with this ID.")


async def test_messages_of_the_copy_have_ids_of_their_own_and_keep_times_and_turns(node: Node) -> None:
    source = await node.create_session()
    turns = await talk(node, source, "one", "two")
    fork = await node.fork(source)
    before, after = [await node.reads.messages(each, person(), limit=9, offset=0) for each in (source, fork)]
    assert [m.turn_id for m in after.messages] == [turns[0], turns[0], turns[1], turns[1]]
    assert [m.timestamp for m in after.messages] == [m.timestamp for m in before.messages]
    assert not {m.id for m in after.messages} & {m.id for m in before.messages}
    assert after.total == 4


async def test_turns_that_failed_were_cancelled_or_run_are_left_out(node: Node, model: ObedientModel) -> None:
    source = await node.create_session()
    model.scripts["bad"] = [ModelFailed("no")]
    await talk(node, source, "one", "bad", "two")
    model.shut("stuck", "last")
    stuck = await node.execute(source, "stuck")
    await node.cancel(source, stuck)
    last, queued = await node.execute(source, "last"), await node.execute(source, "queued")
    fork = await node.fork(source)
    assert (await node.outcome(fork))[0] == "session.created"
    assert await node.history(fork) == exchanges("one", "two")
    [next_turn] = await talk(node, fork, "more")
    assert (await node.turn(next_turn))["position"] == 2
    for turn in (last, queued):
        name, refused = await node.outcome(await node.fork(source, turn))
        assert (name, refused["error"]["type"]) == ("fork_session.rejected", "conflict_error")
    assert (await node.outcome(await node.fork(source, before=last)))[0] == "session.created"
    name, refused = await node.outcome(await node.fork(source, before=queued))
    assert name == "fork_session.rejected"
    assert refused["error"]["message"] == "An earlier turn hasn't ended. Wait for it, or cancel it."
    model.open("last")
    await node.ended(last, queued)
    whole = await node.fork(source, before=queued)
    assert await node.history(whole) == exchanges("one", "two", "last")


async def test_an_empty_session_can_be_forked(node: Node) -> None:
    fork = await node.fork(await node.create_session())
    assert await node.history(fork) == []
    [turn] = await talk(node, fork, "one")
    assert (await node.turn(turn))["position"] == 0


async def test_a_redelivered_command_forks_once(start_node, node: Node) -> None:
    source = await node.create_session()
    await talk(node, source, "one")
    fork = await node.fork(source)
    await talk(node, source, "two")
    await (await start_node()).fork(source, command_id=fork)
    assert await node.history(fork) == exchanges("one")
    assert await node.names(fork) == ["session.created"]
    await node.delete(fork)
    assert await node.reads.session(fork, person()) is None
    await (await start_node()).fork(source, command_id=fork)
    assert await node.reads.session(fork, person()) is None


async def test_a_fork_of_a_fork_takes_the_turns_of_the_first_session(node: Node, model: ObedientModel) -> None:
    source = await node.create_session()
    first, _ = await talk(node, source, "one", "two")
    fork = await node.fork(source)
    await talk(node, fork, "three")
    again = await node.fork(fork, first)
    assert await node.history(again) == exchanges("one")
    whole = await node.fork(fork)
    await node.delete(fork)
    await node.delete(source)
    await talk(node, whole, "more")
    assert seen(model) == ["one", "re: one", "two", "re: two", "three", "re: three", "more"]


async def test_who_reads_the_company_forks_into_a_session_of_his_own(node: Node) -> None:
    source = await node.create_session()
    await talk(node, source, "one")
    chief = person("chief", "company-1", "company:read")
    fork = await node.fork(source, caller=chief)
    session = await node.reads.session(fork, chief)
    assert session.owner_id == "chief"
    assert await node.reads.session(fork, person("alice")) is None


async def test_unknown_turns_and_sessions_are_not_found(node: Node) -> None:
    source, elsewhere = await node.create_session(), await node.create_session()
    [foreign] = await talk(node, elsewhere, "one")
    for turn in ("nonsense", new_id(), foreign):
        refused = await node.outcome(await node.fork(source, turn))
        assert refused[1]["error"]["message"] == "There is no turn with this ID."
    assert (await node.outcome(await node.fork(new_id())))[1]["error"]["message"] == "There is no session with this ID."
    await node.delete(source)
    assert (await node.outcome(await node.fork(source)))[1]["error"]["type"] == "not_found_error"


async def test_the_agent_of_a_fork_reads_the_files_of_its_history(
    node: Node, model: ObedientModel, artifacts: FakeArtifacts
) -> None:
    source = await node.create_session()
    note = artifacts.put("note.txt", "The ferry leaves at nine.", session_id=source)
    file = {"type": "file", "source": {"artifact_id": note.artifact_id}}
    first = await node.execute(source, [{"type": "text", "text": "When?"}, file])
    await node.ended(first)
    fork = await node.fork(source)
    await talk(node, fork, "Sure?")
    assert "leaves at nine" in seen(model)[0]
    named = await node.execute(fork, [{"type": "text", "text": "And this one?"}, file])
    [turn] = await node.ended(named)
    assert turn["status"] == "completed"
    again = await node.fork(source, before=first)
    await node.ended(await node.execute(again, [{"type": "text", "text": "When?"}, file]))
    assert "leaves at nine" in seen(model)[0]
    del artifacts.stored[note.artifact_id]
    [gone] = await talk(node, fork, "Still?")
    assert "couldn't be read" in (await node.outcome(gone))[1]["warnings"][0]
