"""Commands that are handed over by a channel, on the real broker and the real database."""

import asyncio
import os
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator

import orjson
import pytest

from libs.contracts.envelope import Envelope
from libs.contracts.identifiers import new_id
from libs.eventing import CommandSender
from libs.persistence import Database
from libs.service_defaults import Service
from libs.service_defaults.command_channels import ServiceCommandChannels
from tests.integration.eventing.conftest import SIGNING_KEY, Installation, caller, channel_caller, installed, serving
from tests.integration.eventing.test_sample_owner import send_note, take_note
from tests.support.sample_owner import NoteTaken, TakeNote
from tests.support.waiting import until

IN_WORK = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND state LIKE 'idle in transaction%%'
"""


@pytest.fixture
async def installation(kafka: str, topic_prefix: str, database_url: str) -> Installation:
    return await installed(kafka, topic_prefix, database_url)


@pytest.fixture
async def owner(installation: Installation) -> AsyncIterator[Service]:
    async with serving(installation.owner()) as owner:
        yield owner


@pytest.fixture
async def database(installation: Installation, owner: Service) -> AsyncIterator[Database]:
    database = Database(installation.database_url, name="test")
    await database.open()
    yield database
    await database.close()


@pytest.fixture
async def sender(installation: Installation) -> AsyncIterator[CommandSender]:
    async with caller(installation) as sender:
        yield sender


@pytest.fixture
async def channel_sender(installation: Installation) -> AsyncIterator[CommandSender]:
    async with channel_caller(installation) as sender:
        yield sender


async def notes(database: Database) -> list[tuple[str, str]]:
    return await database.execute("SELECT id, text FROM notes ORDER BY id")


async def test_the_outcome_comes_by_the_channel_before_the_bus_has_it(
    owner: Service, channel_sender: CommandSender, database: Database
) -> None:
    over_the_bus: list[Envelope] = []
    channel_sender.on_every_event(lambda envelope, _: over_the_bus.append(envelope))
    # Nothing of this process leaves for the bus.
    held = owner.publisher._sender.send
    gate = asyncio.Event()

    async def send_later(*message: object) -> object:
        await gate.wait()
        return await held(*message)  # type: ignore[arg-type]

    owner.publisher._sender.send = send_later  # type: ignore[assignment, method-assign]
    outcome = await take_note(channel_sender, "buy rope", note_id="note-1")
    assert (outcome.envelope.type, orjson.loads(outcome.payload)) == (NoteTaken.TYPE, {"note_id": "note-1"})
    assert over_the_bus == []
    gate.set()
    await until(lambda: [envelope.id for envelope in over_the_bus] == [outcome.envelope.id])
    assert await notes(database) == [("note-1", "buy rope")]


@pytest.mark.rule(2)
async def test_a_repeat_gets_the_recorded_outcome_by_either_way(
    owner: Service, sender: CommandSender, channel_sender: CommandSender, database: Database
) -> None:
    command_id = new_id()
    outcomes = [
        await take_note(way, "buy rope", command_id=command_id, note_id="note-1")
        for way in (channel_sender, channel_sender, sender, channel_sender)
    ]
    assert len({outcome.envelope.id for outcome in outcomes}) == 1
    assert await notes(database) == [("note-1", "buy rope")]


async def test_a_refusal_comes_back(owner: Service, channel_sender: CommandSender, database: Database) -> None:
    outcome = await take_note(channel_sender, "")
    assert outcome.envelope.type == TakeNote.rejected_type()
    assert await notes(database) == []


async def test_what_nobody_has_signed_is_kept_as_a_dead_letter(
    owner: Service, channel_sender: CommandSender, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The channel returns it, and the bus decides as it always does."""
    given_up = asyncio.Event()

    async def give_up(*_: object) -> None:
        given_up.set()

    monkeypatch.setattr(channel_sender._signer, "sign_command", lambda envelope, _identity, _payload: envelope)
    monkeypatch.setattr(owner.commands, "give_up", give_up)
    await send_note(channel_sender, TakeNote(note_id="note-1", text="buy rope"), new_id())
    await until(given_up.is_set)
    assert await notes(database) == []


async def test_of_many_commands_at_once_each_takes_effect_once(
    owner: Service, channel_sender: CommandSender, database: Database
) -> None:
    outcomes = await asyncio.gather(*(take_note(channel_sender, f"note {number}") for number in range(30)))
    assert {outcome.envelope.type for outcome in outcomes} == {NoteTaken.TYPE}
    assert len(await notes(database)) == 30


@pytest.fixture
async def doomed(installation: Installation) -> AsyncIterator[Process]:
    """An owner in a process of its own that takes commands and never ends one."""
    environment = os.environ | {
        "AES_SIGNING_KEY": SIGNING_KEY,
        "AES_KAFKA_BOOTSTRAP_SERVERS": installation.kafka,
        "AES_TOPIC_PREFIX": installation.prefix,
        "AES_NOTES_DATABASE_URL": installation.database_url,
        "AES_NOTES_PORT": str(installation.port),
        "AES_AUTO_MIGRATE": "true",
    }
    command = sys.executable, "-m", "tests.support.sample_owner.stuck"
    process = await asyncio.create_subprocess_exec(*command, env=environment)
    yield process
    if process.returncode is None:
        process.kill()
    await process.wait()


async def test_commands_of_a_process_that_is_killed_are_carried_out_once_by_another(
    doomed: Process, installation: Installation, channel_sender: CommandSender
) -> None:
    waiting = [
        asyncio.create_task(take_note(channel_sender, f"note {number}", note_id=f"note-{number}"))
        for number in range(10)
    ]
    (channel,) = _channels(channel_sender)._channels.values()
    await until(lambda: len(channel._unheard) == 10)
    database = Database(installation.database_url, name="test")
    await database.open()
    await until(lambda: database.value(IN_WORK))
    doomed.kill()
    await doomed.wait()
    service = installation.owner()
    running = asyncio.create_task(service.run())
    outcomes = await asyncio.gather(*waiting)
    assert {outcome.envelope.type for outcome in outcomes} == {NoteTaken.TYPE}
    assert await notes(database) == [(f"note-{number}", f"note {number}") for number in range(10)]
    await database.close()
    service.stop()
    await running


def _channels(sender: CommandSender) -> ServiceCommandChannels:
    channels = sender._channels
    assert isinstance(channels, ServiceCommandChannels)
    return channels
