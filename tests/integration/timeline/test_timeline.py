"""The timeline filled by its processes, on the real broker and database."""

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
from pydantic import SecretStr

from deploy.local.ports import choose_free
from libs.contracts.identifiers import new_id
from libs.contracts.messages import Envelope, Event
from libs.contracts.resources.artifacts import ArtifactReady
from libs.contracts.resources.turns import TurnCancelled, TurnStarted
from libs.contracts.timeline import TimelineFilter
from libs.contracts.timestamps import format_time
from libs.eventing import KafkaBus
from libs.eventing.administration import create_topics
from libs.eventing.bus import Producer
from libs.persistence import Database
from libs.service_defaults import Service
from services.timeline.adapters.postgres.timeline import PostgresTimeline
from services.timeline.bootstrap import build_log
from services.timeline.settings import TimelineSettings
from tests.integration.gateway.conftest import SIGNING_KEY, until_ready
from tests.support.waiting import until

COMPANIES = [f"company-{number}" for number in range(4)]


class Installation:
    """A bus, a database, and processes of role ``log`` on them."""

    def __init__(self, kafka: str, prefix: str, database_url: str, database: Database, producer: Producer) -> None:
        self.timeline = PostgresTimeline(database)
        self.database = database
        self.producer = producer
        self._given = (kafka, prefix, database_url)
        self._started = 0
        self._running: dict[int, tuple[Service, asyncio.Task[None]]] = {}

    async def start(self) -> int:
        kafka, prefix, url = self._given
        settings = TimelineSettings(
            kafka_bootstrap_servers=kafka, topic_prefix=prefix, signing_key=SIGNING_KEY, auto_migrate=True,
            database_url=SecretStr(url), port=choose_free(), shutdown_grace_seconds=5,
        )  # fmt: skip
        service = build_log(settings)
        self._started += 1
        number = self._started
        self._running[number] = (service, asyncio.create_task(service.run(frozenset({"log"}))))
        await until_ready(service)
        return number

    async def stop(self, number: int) -> None:
        service, running = self._running.pop(number)
        service.stop()
        await running

    async def close(self) -> None:
        for number in list(self._running):
            await self.stop(number)

    async def publish(self, company: str, subject: str, sequence: int, event: Event, **fields: str) -> str:
        """Sends an event as an outbox does; returns its id."""
        envelope = Envelope(
            id=fields.get("id", new_id()),
            type=event.TYPE,
            source="/aes/test",
            subject=subject,
            time=format_time(datetime.now(UTC)),
            correlation_id=fields.get("label", subject),
            company_id=company,
            owner_id="ada",
            sequence=sequence,
        )
        sent = await self.producer.send(event.TOPIC.name, envelope.correlation_id, event.encode(), envelope.headers())
        await sent
        return envelope.id

    async def ids(self, company: str) -> list[str]:
        """The ids of a company's events, with their positions checked."""
        events = (await self.timeline.page(TimelineFilter(company_id=company), after=0, limit=10_000)).events
        assert [event.position for event in events] == list(range(1, len(events) + 1))
        return [event.id for event in events]


@pytest.fixture
async def installation(kafka: str, topic_prefix: str, database_url: str) -> AsyncIterator[Installation]:
    await create_topics(kafka, topic_prefix)
    database = Database(database_url, name="test", timeout=30.0)
    await database.open()
    producer = KafkaBus(kafka, prefix=topic_prefix).producer()
    await producer.start()
    await until(lambda: producer.healthy)
    installation = Installation(kafka, topic_prefix, database_url, database, producer)
    yield installation
    await installation.close()
    await producer.stop()
    await database.close()


def turn(subject: str) -> TurnStarted:
    return TurnStarted(session_id="session", turn_id=subject, attempt=1, user_message_id="message")


async def until_stored(installation: Installation, count: int) -> None:
    async def all_there() -> bool:
        return sum([await installation.timeline.head(company) for company in COMPANIES]) >= count

    await until(all_there)


@pytest.mark.failover("partitions of the timeline")
async def test_members_come_and_go_and_every_event_is_there_once(installation: Installation) -> None:
    """Duplicates of the broker and rows that an outbox published again included."""
    first = await installation.start()
    sent: dict[str, list[str]] = {company: [] for company in COMPANIES}
    subjects = [f"turn-{number}" for number in range(16)]

    async def publish(sequence: int) -> None:
        for number, subject in enumerate(subjects):
            company = COMPANIES[number % len(COMPANIES)]
            event_id = await installation.publish(company, subject, sequence, turn(subject))
            sent[company].append(event_id)
            if sequence % 3 == 0:
                await installation.publish(company, subject, sequence, turn(subject), id=event_id)

    for sequence in range(1, 5):
        await publish(sequence)
    second = await installation.start()
    third = await installation.start()
    for sequence in range(5, 9):
        await publish(sequence)
    await installation.stop(first)
    for sequence in range(9, 13):
        await publish(sequence)
    await installation.stop(third)
    # A row that was published long ago, and is published again.
    await installation.publish(COMPANIES[0], subjects[0], 1, turn(subjects[0]), id=sent[COMPANIES[0]][0])
    await until_stored(installation, 16 * 12)
    await installation.stop(second)

    for company in COMPANIES:
        assert sorted(await installation.ids(company)) == sorted(sent[company])
        for subject in subjects:
            events = await installation.timeline.turn(company, subject, after_sequence=0)
            assert [event.position for event in events] == sorted(event.position for event in events)


async def until_the_clock_shows_more() -> None:
    """Events of different services are in order when their records' times differ by more than a second."""
    later = time.time() + 1.1
    await until(lambda: time.time() > later)


@pytest.mark.rule(29)
async def test_causes_come_before_their_effects_across_services(installation: Installation) -> None:
    for number in range(10):
        await installation.publish(COMPANIES[0], f"turn-{number}", 1, turn(f"turn-{number}"), label=f"label-{number}")
    await until_the_clock_shows_more()
    for number in range(10):
        ready = ArtifactReady(artifact_id=f"artifact-{number}", session_id="session")
        await installation.publish(COMPANIES[0], f"artifact-{number}", 1, ready, label=f"label-{number}")
    await until_the_clock_shows_more()
    for number in range(10):
        cancelled = TurnCancelled(session_id="session", turn_id=f"turn-{number}", reason="asked")
        await installation.publish(COMPANIES[0], f"turn-{number}", 2, cancelled, label=f"label-{number}")
    await installation.start()
    await until_stored(installation, 30)
    for number in range(10):
        where = TimelineFilter(company_id=COMPANIES[0], correlation_id=f"label-{number}")
        events = (await installation.timeline.page(where, after=0, limit=10)).events
        assert [event.type for event in events] == ["turn.started", "artifact.ready", "turn.cancelled"]


async def test_what_cannot_be_read_does_not_stop_the_rest(installation: Installation) -> None:
    await installation.start()
    broken = Envelope(
        id=new_id(), type=TurnStarted.TYPE, source="/aes/test", subject="x" * 4000, time="yesterday",
        correlation_id="label", company_id=COMPANIES[0], sequence=1,
    )  # fmt: skip
    topic = TurnStarted.TOPIC.name
    await (await installation.producer.send(topic, "label", b"no json", broken.headers()))
    await (await installation.producer.send(topic, "label", b"{}", broken.headers()))
    await (await installation.producer.send(topic, "label", b"{}", []))
    stored = [await installation.publish(COMPANIES[0], "turn", n, turn("turn"), label="label") for n in (1, 2)]
    await until_stored(installation, 3)
    found = await installation.ids(COMPANIES[0])
    assert [event_id for event_id in found if event_id in stored] == stored
