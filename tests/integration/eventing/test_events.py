"""Reactions to events take effect once."""

from collections.abc import AsyncIterator

import pytest

from libs.contracts.errors import ServiceUnavailable
from libs.contracts.messages import Envelope, PoisonMessage
from libs.contracts.timestamps import now_text
from libs.eventing import EventRouter, Transaction
from libs.eventing.bus import Record
from libs.eventing.messages import PayloadCorrupt, PayloadReader
from tests.support.event_owner import EventOwner, event_owner
from tests.support.sample_owner import TOPICS, NoteTaken


@pytest.fixture
async def owner(database_url: str) -> AsyncIterator[EventOwner]:
    async with event_owner(database_url) as owner:
        yield owner


class Owner:
    """Another service's internal API."""

    def __init__(self) -> None:
        self.payload: bytes | None = None
        self.asked: list[tuple[str, str, str]] = []

    async def fetch(self, owner: str, path: str, company_id: str) -> bytes:
        self.asked.append((owner, path, company_id))
        if self.payload is None:
            raise ServiceUnavailable("down")
        return self.payload


def event(value: bytes = b'{"note_id":"n","new_field":1}', **changes: str) -> Record:
    fields = {
        "id": "event-1",
        "type": NoteTaken.TYPE,
        "source": "/aes/notes",
        "subject": "n",
        "time": now_text(),
        "correlation_id": "correlation-9",
        "company_id": "company-9",
    }
    return Record(TOPICS[1].name, 0, 0, "correlation-9", value, Envelope(**{**fields, **changes}).headers())


@pytest.fixture
def source() -> Owner:
    return Owner()


@pytest.fixture
def router(owner: EventOwner, source: Owner) -> EventRouter:
    router = EventRouter(owner.outbox, PayloadReader(source.fetch), consumer="copies")

    async def copy(transaction: Transaction, event: NoteTaken, envelope: Envelope) -> None:
        await transaction.connection.execute("INSERT INTO notes VALUES (%s, 'copy')", (envelope.id,))
        transaction.emit(NoteTaken(note_id="copy of " + event.note_id), subject="copy")

    router.on(NoteTaken, copy)
    return router


async def test_an_event_takes_effect_once_and_is_the_cause_of_what_follows(
    owner: EventOwner, router: EventRouter
) -> None:
    assert router.topics == ["notes-events"]
    await router.deliver(event())
    await router.deliver(event())
    assert await owner.rows("SELECT id FROM notes") == [("event-1",)]
    assert await owner.rows("SELECT causation_id, correlation_id, company_id FROM outbox") == [
        ("event-1", "correlation-9", "company-9")
    ]


async def test_unknown_types_are_ignored(owner: EventOwner, router: EventRouter) -> None:
    await router.deliver(event(b"not even json", type="aes.notes.note.sung.v1"))
    assert await owner.rows("SELECT * FROM inbox") == []


@pytest.mark.parametrize("value", [b"{}", b"\xff", b""])
async def test_what_is_no_such_event_is_poison(owner: EventOwner, router: EventRouter, value: bytes) -> None:
    with pytest.raises(PoisonMessage):
        await router.deliver(event(value))
    assert await owner.rows("SELECT * FROM inbox") == []


async def test_a_reference_is_followed_to_the_owner(owner: EventOwner, router: EventRouter, source: Owner) -> None:
    source.payload = b'{"note_id":"large"}'
    digest = "4d1e69a2f9a5e3c5"
    record = event(b"", data_ref="/internal/events/event-1/payload", data_hash=digest)
    with pytest.raises(PayloadCorrupt):
        await router.deliver(record)
    assert await owner.rows("SELECT * FROM inbox") == []

    import hashlib

    digest = hashlib.sha256(source.payload).hexdigest()
    record = event(b"", data_ref="/internal/events/event-1/payload", data_hash=digest)
    source.payload = None
    with pytest.raises(ServiceUnavailable):
        await router.deliver(record)
    source.payload = b'{"note_id":"large"}'
    await router.deliver(record)
    assert await owner.rows("SELECT id FROM notes") == [("event-1",)]
    assert source.asked[-1] == ("notes", "/internal/events/event-1/payload", "company-9")
