"""A Kafka that goes away and comes back, seen by a whole owner and its caller."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from deploy.local.foreground import start
from deploy.local.home import Home
from deploy.local.kafka import Kafka
from deploy.local.ports import choose_free
from libs.contracts.errors import ServiceUnavailable
from libs.contracts.messages import Received
from libs.eventing import CommandSender, IdentitySigner, KafkaBus
from libs.eventing.messages import PayloadReader
from libs.service_defaults import Service, UpstreamClient
from tests.integration.eventing.bus_members import Member
from tests.integration.eventing.conftest import SIGNING_KEY, Installation, caller, installed, serving, until_ready
from tests.integration.eventing.test_sample_owner import take_note
from tests.support import sample_owner
from tests.support.event_owner import PLAIN
from tests.support.sample_owner import NoteTaken, TakeNote
from tests.support.tcp_proxy import TcpProxy
from tests.support.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.outage("Kafka, dead", "Kafka, frozen")]


@dataclass
class ProxiedKafka(Kafka):
    """A Kafka of a test's own whose every address leads through a proxy, to take it away and give it back."""

    advertised_port: int = 0

    def _configuration(self) -> str:
        listener = "advertised.listeners=PLAINTEXT://127.0.0.1"
        return super()._configuration().replace(f"{listener}:{self.port}", f"{listener}:{self.advertised_port}")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxiedKafka]:
    directory = tmp_path_factory.mktemp("private")
    home = Home.from_environment()
    home.create()
    port = choose_free()
    controller = choose_free({port})
    kafka = ProxiedKafka(
        directory=directory / "kafka",
        log=directory / "kafka.log",
        cache=home.cache,
        port=port,
        controller_port=controller,
        environment=dict(os.environ),
        advertised_port=choose_free({port, controller}),
    )
    with ThreadPoolExecutor(1) as outside_of_any_loop:
        running = outside_of_any_loop.submit(lambda: asyncio.run(start(kafka, lambda _: None))).result()
    yield kafka
    running.stop()


@pytest.fixture
async def proxy(broker: ProxiedKafka) -> AsyncIterator[TcpProxy]:
    async with TcpProxy(port=broker.advertised_port, target_port=broker.port) as proxy:
        yield proxy


@pytest.fixture
async def installation(broker: ProxiedKafka, proxy: TcpProxy, topic_prefix: str, database_url: str) -> Installation:
    return await installed(f"127.0.0.1:{broker.advertised_port}", topic_prefix, database_url)


@pytest.fixture
async def owner(installation: Installation) -> AsyncIterator[Service]:
    async with serving(installation.owner()) as owner:
        yield owner


@pytest.fixture
async def sender(installation: Installation) -> AsyncIterator[CommandSender]:
    async with caller(installation) as sender:
        yield sender


async def refused(sender: CommandSender) -> None:
    """A command is refused, long before its caller stops waiting (4 s on an idle machine)."""
    async with asyncio.timeout(60):
        with pytest.raises(ServiceUnavailable):
            await take_note(sender, "refused")


@pytest.mark.parametrize("outage", ["cut", "freeze"])
async def test_callers_are_refused_in_time_and_all_goes_on_by_itself(
    owner: Service, sender: CommandSender, proxy: TcpProxy, outage: str
) -> None:
    await until(sender.fresh)
    assert (await take_note(sender, "before")).envelope.type == NoteTaken.TYPE
    if outage == "cut":
        await proxy.cut()
    else:
        proxy.freeze()
    await refused(sender)
    await refused(sender)
    await until(lambda: not sender.fresh())

    await proxy.restore()
    await until(sender.fresh)

    async def taken() -> Received | None:
        try:
            return await take_note(sender, "after")
        except ServiceUnavailable:
            return None

    assert (await until(taken, pause=0.2)).envelope.type == NoteTaken.TYPE


async def test_events_of_an_outage_arrive_after_it_in_order(
    installation: Installation, owner: Service, proxy: TcpProxy
) -> None:
    member = Member(KafkaBus(installation.kafka, prefix=installation.prefix), "readers", [NoteTaken.TOPIC.name])
    await member.start()
    for number in range(40):
        if number == 10:
            await proxy.cut()
        if number == 30:
            await until(lambda: not owner.producer.healthy)
            await proxy.restore()
        async with owner.outbox.transaction(PLAIN) as transaction:
            transaction.emit(NoteTaken(note_id=str(number)), subject="note")
        if number == 9:
            await until(lambda: member.records)
    await until(lambda: len({record.value for record in member.records}) == 40)
    first_seen = [int(NoteTaken.decode(value).note_id) for value in dict.fromkeys(member.values)]
    assert first_seen == list(range(40))
    await member.stop()


async def test_a_reader_waits_for_a_kafka_that_does_not_answer(
    installation: Installation, proxy: TcpProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new reader would have to join again, which takes longer."""
    bus, topics = KafkaBus(installation.kafka, prefix=installation.prefix), [NoteTaken.TOPIC.name]
    # Reads positions, so a new topic's leaders are elected. Otherwise a look-up's retry, which waits longer than the
    # check below, would count as silence.
    tail = bus.tail(topics)
    await tail.start()
    await tail.stop()
    monkeypatch.setattr("libs.eventing._kafka_consumer._WATCH_SECONDS", 0.2)
    member = Member(bus, "patient", topics)
    await member.start()
    proxy.freeze()
    polls = member.polls
    await until(lambda: member.polls >= polls + 15)
    await proxy.restore()
    polls = member.polls
    await until(lambda: member.polls >= polls + 5)
    assert len(member.assignments) == 1
    await member.stop()


async def test_the_start_waits_for_kafka(
    installation: Installation, proxy: TcpProxy, capsys: pytest.CaptureFixture[str]
) -> None:
    await proxy.cut()
    service = installation.owner()
    running = asyncio.create_task(service.run())
    await until(lambda: "producer.unreachable" in "".join(capsys.readouterr()))
    await until(lambda: service.lifecycle.started)
    assert (await service.readiness.results())["consumer notes-commands"] == "not yet"
    await proxy.restore()
    await until_ready(service)
    service.stop()
    await running


async def test_a_stop_does_not_wait_for_kafka(installation: Installation, proxy: TcpProxy) -> None:
    service = installation.owner()
    running = asyncio.create_task(service.run())
    await until_ready(service)
    await proxy.cut()
    service.stop()
    async with asyncio.timeout(60):
        await running


async def test_a_stop_ends_when_its_time_is_over_whatever_hangs(
    installation: Installation, proxy: TcpProxy, sender: CommandSender
) -> None:
    """A handler and a hook that never end, and neither broker nor database answers any more."""
    port, begun = choose_free(), asyncio.Event()
    hooked: list[float] = []
    target = int(conninfo_to_dict(installation.database_url)["port"] or 5432)
    behind = make_conninfo(installation.database_url, host="127.0.0.1", port=port)
    service = Installation(installation.kafka, installation.prefix, behind, installation.port).owner()
    service.settings.shutdown_grace_seconds = 4.0

    async def forever(*_: object) -> None:
        begun.set()
        await asyncio.Event().wait()

    async def last() -> None:
        hooked.append(service.seconds_to_stop())

    service.commands.handle(TakeNote, forever)
    service.on_stop(forever)
    service.on_stop(last)
    async with TcpProxy(port=port, target_port=target) as database:
        running = asyncio.create_task(service.run())
        await until_ready(service)
        asking = asyncio.create_task(take_note(sender, "never taken"))
        await begun.wait()
        proxy.freeze()
        database.freeze()
        service.stop()
        async with asyncio.timeout(60):
            await running
    asking.cancel()
    assert hooked == [0.0], "it has its turn, although the one before it took all the time"


async def test_a_sender_starts_without_kafka_and_gets_ready_with_it(
    installation: Installation, owner: Service, proxy: TcpProxy
) -> None:
    await proxy.cut()
    bus = KafkaBus(installation.kafka, prefix=installation.prefix)
    producer = bus.producer()
    signer = IdentitySigner(SIGNING_KEY)
    calls = UpstreamClient({"notes": f"http://127.0.0.1:{installation.port}"}, signer)
    payloads = PayloadReader(calls.payload)
    sender = CommandSender(
        bus, producer, signer, calls.command_state, payloads, source="/aes/test", topics=sample_owner.TOPICS
    )
    await producer.start()
    reading = [asyncio.create_task(reader.run()) for reader in sender.readers]
    await refused(sender)
    await proxy.restore()
    await until(lambda: sender.started() and producer.healthy)
    assert (await take_note(sender, "at last")).envelope.type == NoteTaken.TYPE
    for task in reading:
        task.cancel()
    await asyncio.gather(*reading, return_exceptions=True)
    await producer.stop()
    await calls.stop()
