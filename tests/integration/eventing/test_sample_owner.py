"""A command through the real bus to a whole owner and back."""

import asyncio

import orjson
import pytest

from libs.contracts.identifiers import new_id
from libs.eventing import CommandSender, IdentitySigner
from libs.persistence import Database
from libs.service_defaults import Service, UpstreamClient
from tests.integration.eventing.conftest import ALICE, SIGNING_KEY
from tests.support.sample_owner import NoteTaken, TakeNote

pytestmark = pytest.mark.asyncio(loop_scope="module")
NOTE = "SELECT text FROM notes WHERE id = %s"
WITH_TEXT = "SELECT count(*) FROM notes WHERE text LIKE %s"


async def send_note(sender: CommandSender, command: TakeNote, command_id: str) -> None:
    await sender.send(
        command,
        subject=command.note_id,
        command_id=command_id,
        correlation_id="test",
        identity=ALICE,
        expires_in=240,
    )


async def take_note(sender: CommandSender, text: str, *, command_id: str | None = None, note_id: str | None = None):
    command_id = command_id or new_id()
    command = TakeNote(note_id=note_id or new_id(), text=text)
    async with sender.replies(command_id, TakeNote, ALICE) as replies:
        await send_note(sender, command, command_id)
        outcome = await replies.outcome(180)
    assert outcome is not None
    return outcome


async def test_a_command_takes_effect_and_its_outcome_comes_back(owner: Service, sender: CommandSender) -> None:
    outcome = await take_note(sender, "buy rope", note_id="note-1")

    assert outcome.envelope.type == NoteTaken.TYPE
    assert outcome.envelope.sequence == 1
    assert orjson.loads(outcome.payload) == {"note_id": "note-1"}
    calls = UpstreamClient({"notes": f"http://127.0.0.1:{owner.settings.port}"}, IdentitySigner(SIGNING_KEY))
    answer = await calls.get("notes", "/internal/notes/note-1", ALICE)
    await calls.stop()
    assert orjson.loads(answer.body) == {"id": "note-1", "text": "buy rope"}


async def test_a_refusal_comes_back_and_changes_nothing(
    owner: Service, sender: CommandSender, database: Database
) -> None:
    outcome = await take_note(sender, "", note_id="empty")

    assert outcome.envelope.type == TakeNote.rejected_type()
    assert orjson.loads(outcome.payload)["error"]["type"] == "conflict_error"
    assert await database.execute(NOTE, ("empty",)) == []


async def test_what_the_database_can_never_store_is_rejected_at_once(
    owner: Service, sender: CommandSender, database: Database
) -> None:
    outcome = await take_note(sender, "a\0b", note_id="nul")

    assert outcome.envelope.type == TakeNote.rejected_type()
    assert orjson.loads(outcome.payload)["error"]["type"] == "internal_error"
    assert await database.execute(NOTE, ("nul",)) == []


async def test_many_commands_at_once(owner: Service, sender: CommandSender, database: Database) -> None:
    outcomes = await asyncio.gather(*(take_note(sender, f"note {number}") for number in range(200)))

    assert {outcome.envelope.type for outcome in outcomes} == {NoteTaken.TYPE}
    assert await database.value(WITH_TEXT, ("note %",)) == 200
