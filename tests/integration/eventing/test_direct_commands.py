"""Commands that their owner is handed over HTTP, on the real broker and the real database."""

import aiohttp
import orjson
import pytest

from libs.contracts.envelope import Envelope
from libs.contracts.errors import ServiceUnavailable
from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.contracts.timestamps import now_text
from libs.eventing import CommandSender, CommandState, IdentitySigner
from libs.persistence import Database
from libs.service_defaults import Service, UpstreamClient
from libs.service_defaults.internal_routes import encode_event
from tests.integration.eventing.conftest import ALICE, SIGNING_KEY
from tests.integration.eventing.test_sample_owner import send_note, take_note
from tests.support.sample_owner import NoteTaken, TakeNote


async def submit(sender: CommandSender, text: str, command_id: str) -> CommandState:
    return await send_note(sender, TakeNote(note_id="note-1", text=text), command_id, directly=True)


async def notes(database: Database) -> list[tuple[str, str]]:
    return await database.execute("SELECT id, text FROM notes")


async def test_the_owner_answers_with_the_outcome_that_it_publishes(
    owner: Service, sender: CommandSender, database: Database
) -> None:
    command_id = new_id()
    async with sender.replies(command_id, TakeNote, ALICE) as replies:
        state = await submit(sender, "buy rope", command_id)
        assert state.outcome is not None
        assert (state.outcome.envelope.type, orjson.loads(state.outcome.payload)) == (
            NoteTaken.TYPE,
            {"note_id": "note-1"},
        )
        published = await replies.wait(60)
    assert published is not None
    assert (published.envelope.id, published.payload) == (state.outcome.envelope.id, state.outcome.payload)

    again = await submit(sender, "buy rope", command_id)
    over_the_bus = await take_note(sender, "buy rope", command_id=command_id, note_id="note-1")
    assert again.outcome is not None
    assert {again.outcome.envelope.id, over_the_bus.envelope.id} == {published.envelope.id}
    assert await notes(database) == [("note-1", "buy rope")]


async def test_a_refusal_is_an_outcome(owner: Service, sender: CommandSender, database: Database) -> None:
    state = await submit(sender, "", new_id())
    assert state.outcome is not None
    assert state.outcome.envelope.type == TakeNote.rejected_type()
    assert await notes(database) == []


async def test_what_cannot_be_handed_over_goes_over_the_bus(
    owner: Service, sender: CommandSender, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def carried_out_without_an_answer(
        upstream: str, envelope: Envelope, payload: bytes, identity: Identity
    ) -> CommandState:
        await handed(upstream, envelope, payload, identity)
        raise ServiceUnavailable("the process has ended before it answered")

    handed = sender._submit_command
    assert handed is not None
    monkeypatch.setattr(sender, "_submit_command", carried_out_without_an_answer)
    command_id = new_id()
    async with sender.replies(command_id, TakeNote, ALICE) as replies:
        assert not (await submit(sender, "buy rope", command_id)).known
        outcome = await replies.outcome(60)
    assert outcome is not None
    assert outcome.envelope.type == NoteTaken.TYPE
    assert await notes(database) == [("note-1", "buy rope")]


async def test_what_nobody_has_signed_or_is_not_taken_directly_is_refused(owner: Service, database: Database) -> None:
    signer = IdentitySigner(SIGNING_KEY)
    payload = TakeNote(note_id="note-1", text="buy rope").encode()
    envelope = Envelope(
        id=new_id(),
        type=TakeNote.TYPE,
        source="/aes/test",
        subject="note-1",
        time=now_text(),
        correlation_id="test",
        company_id=ALICE.company_id,
    )
    signed = signer.sign_command(envelope, ALICE, payload)
    calls = UpstreamClient({"notes": f"http://127.0.0.1:{owner.settings.port}"}, signer)
    other = TakeNote(note_id="note-1", text="sell rope").encode()
    for body in (
        b"",
        b"{}\n{}",
        encode_event(envelope, payload),
        encode_event(signed, other),
        encode_event(signed, payload).replace(TakeNote.TYPE.encode(), b"aes.notes.burn_note.v1"),
    ):
        assert (await calls.request("POST", "notes", "/internal/commands", ALICE, body=body)).status == 400, body
    await calls.stop()
    url = f"http://127.0.0.1:{owner.settings.port}/internal/commands"
    async with aiohttp.ClientSession() as session, session.post(url, data=encode_event(signed, payload)) as response:
        assert response.status == 401
    assert await notes(database) == []
