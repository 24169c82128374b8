"""Waiting for what a command causes, on the broker in memory."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from libs.contracts.errors import ServiceUnavailable
from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.contracts.messages import Envelope, Received, envelope_from
from libs.contracts.timestamps import now_text, parse_time
from libs.eventing import CommandSender, IdentitySigner, LookUp, ReplyState
from libs.eventing.messages import PayloadReader
from libs.eventing.request_reply import ReadTooSlowly
from libs.retry import RetryPolicy
from tests.support.command_records import ALICE, MALLORY, SIGNING_KEY
from tests.support.memory_bus import MemoryBus
from tests.support.sample_owner import TOPICS, NoteTaken, TakeNote
from tests.support.waiting import until

pytestmark = pytest.mark.virtual_time

STEP = "aes.notes.note.begun.v1"


@dataclass
class Owner:
    """The look-up of the owner of notes."""

    answer: LookUp = field(default_factory=lambda: LookUp(ReplyState.WAITING))
    down: bool = False
    payload: bytes | None = None
    asked: list[tuple[str, str, Identity]] = field(default_factory=list)

    async def ask(self, owner: str, command_id: str, identity: Identity) -> LookUp:
        self.asked.append((owner, command_id, identity))
        if self.down:
            raise ServiceUnavailable("down")
        return self.answer

    async def fetch(self, owner: str, path: str, company_id: str) -> bytes:
        if self.payload is None:
            raise ServiceUnavailable("down")
        return self.payload


def event(
    command_id: str | None, event_type: str = NoteTaken.TYPE, company: str = "company-1", **extra: str
) -> Envelope:
    return Envelope(
        id=new_id(),
        type=event_type,
        source="/aes/notes",
        subject="n",
        time=now_text(),
        correlation_id="label",
        company_id=company,
        causation_id=command_id,
        **extra,  # type: ignore[arg-type]
    )


@pytest.fixture(autouse=True)
def short_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("libs.eventing.request_reply._SILENCE_SECONDS", 0.05)
    monkeypatch.setattr("libs.eventing.request_reply._SEND_SECONDS", 0.2)
    monkeypatch.setattr("libs.eventing.request_reply._POLL_SECONDS", 0.02)
    monkeypatch.setattr("libs.eventing.request_reply._RECONNECT", RetryPolicy(first=0.02, longest=0.02))
    monkeypatch.setattr("libs.eventing.request_reply._FRESH_SECONDS", 0.2)


@pytest.fixture
def bus() -> MemoryBus:
    return MemoryBus()


@pytest.fixture
def owner() -> Owner:
    return Owner()


@pytest.fixture
async def sender(bus: MemoryBus, owner: Owner) -> AsyncIterator[CommandSender]:
    sender = CommandSender(
        bus,
        bus.producer(),
        IdentitySigner(SIGNING_KEY),
        owner.ask,
        PayloadReader(owner.fetch),
        source="/aes/test",
        topics=TOPICS,
    )
    reading = [asyncio.create_task(reader.run()) for reader in sender.readers]
    await until(sender.started)
    yield sender
    for task in reading:
        task.cancel()
    await asyncio.gather(*reading, return_exceptions=True)


async def publish(bus: MemoryBus, envelope: Envelope, value: bytes = b"{}") -> None:
    await bus.producer().send(TOPICS[1].name, envelope.correlation_id, value, envelope.headers())


async def take_note(sender: CommandSender, *, expires_in: float = 30, identity: Identity = ALICE) -> None:
    await sender.send(
        TakeNote(note_id="n", text="t"),
        subject="n",
        command_id="command",
        correlation_id="label",
        identity=identity,
        expires_in=expires_in,
    )


async def test_a_command_carries_who_asked_and_when_it_expires(sender: CommandSender, bus: MemoryBus) -> None:
    await take_note(sender, expires_in=30)
    (record,) = bus.records(TakeNote.TOPIC.name)
    envelope = envelope_from(record.headers)
    assert (record.key, envelope.id, envelope.type, envelope.subject) == ("label", "command", TakeNote.TYPE, "n")
    assert IdentitySigner(SIGNING_KEY).verify_command(envelope, record.value) == ALICE
    lifetime = parse_time(envelope.expires_at or "") - parse_time(envelope.time)
    assert lifetime.total_seconds() == pytest.approx(30)


async def test_a_waiter_gets_events_of_its_command_and_company_only(sender: CommandSender, bus: MemoryBus) -> None:
    async with sender.replies("command", TakeNote, ALICE) as replies:
        await publish(bus, event("another command"))
        await publish(bus, event(None))
        await publish(bus, event("command", company="company-2"))
        await publish(bus, event("command", STEP), b"step")
        await publish(bus, event("command"), b"end")
        first = await replies.next(30)
        second = await replies.next(30)
    assert (first.payload, second.payload) == (b"step", b"end")
    assert (replies.ends(first), replies.ends(second)) == (False, True)


async def test_the_state_goes_from_waiting_to_accepted_to_answered_and_never_back(
    sender: CommandSender, bus: MemoryBus, owner: Owner
) -> None:
    async with sender.replies("command", TakeNote, ALICE) as replies:
        assert replies.state is ReplyState.WAITING
        await publish(bus, event("command", STEP))
        await until(lambda: replies.state is ReplyState.ACCEPTED)
        assert await replies.look_up() is None, "its owner has not heard of it yet"
        assert replies.state is ReplyState.ACCEPTED
        await publish(bus, event("command"))
        await until(lambda: replies.state is ReplyState.ANSWERED)
        owner.answer = LookUp(ReplyState.ACCEPTED)
        await publish(bus, event("command", STEP))
        await until(lambda: len(replies._arrived._unread) == 3)
        assert await replies.look_up() is None
        assert replies.state is ReplyState.ANSWERED


@pytest.mark.parametrize("state", ReplyState)
async def test_a_look_up_before_a_command_is_sent_tells_a_repeat(
    sender: CommandSender, owner: Owner, state: ReplyState
) -> None:
    recorded = Received(event("command"), b"recorded") if state is ReplyState.ANSWERED else None
    owner.answer = LookUp(state, recorded)
    async with sender.replies("command", TakeNote, ALICE) as replies:
        assert not replies.is_repeat
        assert await replies.look_up() == recorded
        assert (replies.state, replies.is_repeat) == (state, state is not ReplyState.WAITING)


@pytest.mark.rule(17)
async def test_another_company_gets_no_events(sender: CommandSender, bus: MemoryBus) -> None:
    async with sender.replies("command", TakeNote, MALLORY) as replies:
        await publish(bus, event("command"))
        assert await replies.outcome(0.3) is None
    assert replies.state is ReplyState.WAITING


async def test_only_a_slow_reader_is_dropped(
    sender: CommandSender, bus: MemoryBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("libs.eventing.request_reply.MOST_UNREAD", 3)
    async with (
        sender.replies("command", TakeNote, ALICE) as slow,
        sender.replies("command", TakeNote, ALICE) as other,
    ):
        for number in range(4):
            await publish(bus, event("command", STEP), str(number).encode())
            received = await other.next(30)
            assert received.payload == str(number).encode()
        with pytest.raises(ReadTooSlowly):
            await slow.next(30)
        assert not slow._arrived._unread


async def test_waiters_leave_nothing_behind(sender: CommandSender, bus: MemoryBus) -> None:
    async with sender.replies("command", TakeNote, ALICE) as one:
        async with sender.replies("command", TakeNote, ALICE):
            pass
        await publish(bus, event("command"), b"end")
        assert await one.outcome(30) is not None
    with pytest.raises(RuntimeError):
        async with sender.replies("command", TakeNote, ALICE):
            raise RuntimeError
    assert sender._waiters == {}


@pytest.mark.rule(4)
async def test_an_outcome_that_was_missed_is_found_by_asking_the_owner(sender: CommandSender, owner: Owner) -> None:
    recorded = Received(event("command"), b"recorded")
    async with sender.replies("command", TakeNote, ALICE) as replies:
        owner.answer = LookUp(ReplyState.ACCEPTED)
        waiting = asyncio.create_task(replies.outcome(30))
        await until(lambda: len(owner.asked) >= 2)
        assert replies.state is ReplyState.ACCEPTED
        owner.answer = LookUp(ReplyState.ANSWERED, recorded)
        assert await waiting == recorded
    assert owner.asked[0] == ("notes", "command", ALICE)


async def test_an_owner_that_is_down_leaves_the_state_unknown(sender: CommandSender, owner: Owner) -> None:
    owner.down = True
    async with sender.replies("command", TakeNote, ALICE) as replies:
        assert await replies.outcome(0.2) is None
    assert replies.state is ReplyState.WAITING
    assert len(owner.asked) >= 2


async def test_a_large_outcome_is_fetched_and_one_that_cannot_be_is_looked_up(
    sender: CommandSender, bus: MemoryBus, owner: Owner
) -> None:
    owner.payload = b"large"
    reference = {"data_ref": "/internal/events/event/payload", "data_hash": hashlib.sha256(b"large").hexdigest()}
    async with sender.replies("command", TakeNote, ALICE) as replies:
        await publish(bus, event("command", **reference), b"")
        outcome = await replies.outcome(30)
        assert outcome.payload == b"large"

        owner.payload = b"something else"
        owner.answer = LookUp(ReplyState.ANSWERED, Received(event("command"), b"recorded"))
        await publish(bus, event("command", **reference), b"")
        outcome = await replies.outcome(30)
        assert outcome.payload == b"recorded"


async def test_without_a_bus_a_command_is_refused_at_once(sender: CommandSender, bus: MemoryBus) -> None:
    bus.down = True
    with pytest.raises(ServiceUnavailable, match="Nothing was changed"):
        await take_note(sender)
    bus.down = False
    await take_note(sender)


async def test_the_answer_of_a_command_that_is_sent_before_the_readers_begin_is_looked_up(
    sender: CommandSender, bus: MemoryBus, owner: Owner
) -> None:
    late = CommandSender(
        bus,
        bus.producer(),
        IdentitySigner(SIGNING_KEY),
        owner.ask,
        PayloadReader(owner.fetch),
        source="s",
        topics=TOPICS,
    )
    assert not late.started()
    owner.answer = LookUp(ReplyState.ANSWERED, Received(event("command"), b"recorded"))
    async with late.replies("command", TakeNote, ALICE) as replies:
        await take_note(late)
        await publish(bus, event("command"))
        assert await replies.outcome(30) == owner.answer.outcome
    assert len(bus.records(TakeNote.TOPIC.name)) == 1


async def test_readers_go_on_after_an_outage_where_they_were(sender: CommandSender, bus: MemoryBus) -> None:
    heard: list[bytes] = []
    sender.on_every_event(lambda _, payload: heard.append(payload))
    await publish(bus, event("a"), b"before")
    await until(lambda: heard == [b"before"])
    bus.down = True
    await until(lambda: not sender.fresh())
    await bus.append(TOPICS[1].name, "label", b"meanwhile", event("b").headers())
    assert sender.started()
    bus.down = False
    await publish(bus, event("c"), b"after")
    await until(lambda: len(heard) == 3)
    assert heard == [b"before", b"meanwhile", b"after"]


async def test_a_broker_that_does_not_confirm_may_still_have_the_command(sender: CommandSender) -> None:
    class Silent:
        healthy = True

        async def send(self, *_: object) -> "asyncio.Future[None]":
            return asyncio.get_running_loop().create_future()

    sender._producer = Silent()  # type: ignore[assignment]
    with pytest.raises(ServiceUnavailable, match="may still be executed"):
        await take_note(sender)


async def test_callbacks_get_events_of_every_company_and_a_failing_one_disturbs_no_other(
    sender: CommandSender, bus: MemoryBus
) -> None:
    heard: list[tuple[str, bytes]] = []

    def fail(envelope: Envelope, payload: bytes) -> None:
        raise RuntimeError

    sender.on_event(NoteTaken.TYPE, fail)
    sender.on_event(NoteTaken.TYPE, lambda envelope, payload: heard.append((envelope.company_id, payload)))
    await publish(bus, event("a", company="company-1"), b"1")
    await bus.producer().send(TOPICS[1].name, "label", b"", [("ce_id", b"no envelope")])
    await publish(bus, event("b", company="company-2"), b"2")
    await publish(bus, event("c", STEP))
    async with sender.replies("d", TakeNote, ALICE) as replies:
        await publish(bus, event("d"), b"3")
        assert await replies.outcome(30) is not None
    assert heard == [("company-1", b"1"), ("company-2", b"2"), ("company-1", b"3")]


async def test_a_reader_that_starts_anew_is_not_fresh_however_lately_it_was_answered(
    sender: CommandSender, bus: MemoryBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("libs.eventing.request_reply._FRESH_SECONDS", 1000.0)
    await until(sender.fresh)
    bus.down = True
    await until(lambda: not sender.fresh())
