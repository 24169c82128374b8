"""Events of the bus become events of the timeline."""

from dataclasses import replace
from hashlib import sha256

import orjson
import pytest

from libs.contracts.messages import Envelope, PoisonMessage
from libs.contracts.resources.turns import TurnStarted
from libs.eventing.bus import Record
from libs.eventing.messages import PayloadReader
from services.timeline.domain.events import OWNER_UNKNOWN
from services.timeline.entrypoints.log import TimelineEvents
from tests.support.timeline import FakeTimeline

STARTED = Envelope(
    id="event",
    type=TurnStarted.TYPE,
    source="/aes/runtime",
    subject="turn",
    time="2026-01-02T03:04:05.000006Z",
    correlation_id="label",
    company_id="company",
    owner_id="ada",
    causation_id="turn",
    sequence=7,
)
PAYLOAD = b'{ "session_id":"session", "turn_id":"turn","attempt":1.0}'


def record(envelope: Envelope, payload: bytes = PAYLOAD) -> Record:
    return Record("runtime-events", 0, 0, envelope.correlation_id, payload, envelope.headers())


@pytest.fixture
def events() -> TimelineEvents:
    async def fetch(owner: str, path: str, company_id: str) -> bytes:
        assert (owner, path, company_id) == ("runtime", "/internal/events/event/payload", "company")
        return PAYLOAD

    return TimelineEvents(FakeTimeline(), PayloadReader(fetch))


def test_an_event_keeps_its_attributes_and_its_payload_to_the_byte(events: TimelineEvents) -> None:
    item = events.read(record(STARTED))
    assert events.is_whole(item)
    event = item.event
    assert (event.type, event.version, event.sequence) == ("turn.started", 1, 7)
    assert (event.session_id, event.turn_id, event.owner_id) == ("session", "turn", "ada")
    assert event.data == PAYLOAD


@pytest.mark.parametrize(
    ("owner_id", "payload", "expected"),
    [
        ("ada", PAYLOAD, "ada"),
        (None, PAYLOAD, OWNER_UNKNOWN),
        (None, b'{"artifact": {"session_id": "session"}}', OWNER_UNKNOWN),
        (None, b'{"agent": {"id": "agent"}}', None),
        ("", PAYLOAD, OWNER_UNKNOWN),
    ],
)
def test_who_may_see_an_event(
    events: TimelineEvents, owner_id: str | None, payload: bytes, expected: str | None
) -> None:
    item = events.read(record(replace(STARTED, owner_id=owner_id), payload))
    assert item.event.owner_id == expected


def test_an_artifact_is_found_by_its_session(events: TimelineEvents) -> None:
    item = events.read(record(STARTED, orjson.dumps({"artifact": {"session_id": "session"}})))
    assert (item.event.session_id, item.event.turn_id) == ("session", None)


def test_events_of_no_company_are_left_out(events: TimelineEvents) -> None:
    assert events.read(record(replace(STARTED, company_id=""))) is None


async def test_a_payload_that_is_only_referred_to_is_fetched(events: TimelineEvents) -> None:
    referring = replace(STARTED, data_ref="/internal/events/event/payload", data_hash=sha256(PAYLOAD).hexdigest())
    item = events.read(record(referring, b""))
    assert item is not None
    assert not events.is_whole(item)
    whole = await events.fetch(item)
    assert whole.event.data == PAYLOAD


@pytest.mark.parametrize("payload", [b"", b"[]", b"text", b'"text"', b'{"a": "\\ud800"}', b"\xff"])
def test_a_payload_that_is_no_object_is_poison(events: TimelineEvents, payload: bytes) -> None:
    with pytest.raises(PoisonMessage):
        events.read(record(STARTED, payload))


@pytest.mark.parametrize("sequence", [-1, 2**63, 2**70])
def test_a_number_that_counts_nothing_is_poison(events: TimelineEvents, sequence: int) -> None:
    with pytest.raises(PoisonMessage):
        events.read(record(replace(STARTED, sequence=sequence)))


def test_a_record_without_an_envelope_is_poison(events: TimelineEvents) -> None:
    with pytest.raises(PoisonMessage):
        events.read(Record("runtime-events", 0, 0, "key", PAYLOAD, []))


@pytest.mark.parametrize(
    ("type", "name", "version"),
    [
        ("aes.registry.agent.updated.v2", "agent.updated", 2),
        ("aes.runtime.turn.citation.added.v1", "turn.citation.added", 1),
        ("somebody.else", "somebody.else", 1),
    ],
)
def test_names_and_versions_of_types(events: TimelineEvents, type: str, name: str, version: int) -> None:
    item = events.read(record(replace(STARTED, type=type)))
    assert (item.event.type, item.event.version) == (name, version)
