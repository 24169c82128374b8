"""The broker port on Apache Kafka. The only place that knows aiokafka."""

import asyncio
import time
from asyncio import Future
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, cast

import structlog
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import CommitFailedError, KafkaError, KafkaTimeoutError, MessageSizeTooLargeError
from aiokafka.structs import ConsumerRecord

from libs.contracts.topics import MAX_MESSAGE_BYTES
from libs.eventing._bus import Assignment, BusUnavailable, Headers, MessageRefused, Partition, Record

_log = structlog.get_logger("eventing.kafka")
_RECONNECT_SECONDS: Final = 1.0
_UNHEALTHY_SECONDS: Final = 3.0
_FETCH_WAIT_MS: Final = 500
_ANSWER_SECONDS: Final = 5.0


class KafkaBus:
    """Producers and readers of one cluster.

    ``prefix`` goes before every topic and group, so that several installations share a cluster.
    """

    def __init__(self, bootstrap_servers: str, *, prefix: str = "", client_id: str = "aes") -> None:
        self._servers = bootstrap_servers
        self._prefix = prefix
        self._client_id = client_id

    def producer(self) -> "KafkaProducer":
        return KafkaProducer(self._servers, prefix=self._prefix, client_id=self._client_id)

    def consumer(self, group: str, topics: Sequence[str], assignment: Assignment) -> "KafkaConsumer":
        return KafkaConsumer(
            self._servers,
            prefix=self._prefix,
            client_id=self._client_id,
            group=group,
            topics=topics,
            assignment=assignment,
        )

    def tail(self, topics: Sequence[str]) -> "KafkaTail":
        return KafkaTail(self._servers, prefix=self._prefix, client_id=self._client_id, topics=topics)


class KafkaProducer:
    """An idempotent producer. It retries for as long as the process lives, so order survives an outage."""

    def __init__(self, servers: str, *, prefix: str, client_id: str) -> None:
        self._prefix = prefix
        self._make = lambda: AIOKafkaProducer(
            bootstrap_servers=servers,
            client_id=client_id,
            acks="all",
            enable_idempotence=True,
            linger_ms=0,
            max_batch_size=MAX_MESSAGE_BYTES,
            max_request_size=MAX_MESSAGE_BYTES,
            request_timeout_ms=10_000,
            retry_backoff_ms=100,
            metadata_max_age_ms=60_000,
        )
        self._producer: AIOKafkaProducer | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._unacknowledged: deque[tuple[float, Future[None]]] = deque()

    async def start(self) -> None:
        self._connecting = asyncio.create_task(self._connect(), name="kafka.producer.connect")

    async def _connect(self) -> None:
        while self._producer is None:
            producer = self._make()
            try:
                await producer.start()
            except (KafkaError, OSError) as problem:
                await producer.stop()
                _log.warning("producer.unreachable", problem=repr(problem))
                await asyncio.sleep(_RECONNECT_SECONDS)
            else:
                self._producer = producer

    async def stop(self) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
        if self._producer is not None:
            try:
                await asyncio.wait_for(self._producer.stop(), 3.0)
            except TimeoutError:
                _log.warning("producer.undelivered", messages=len(self._unacknowledged))
            self._producer = None

    async def send(self, topic: str, key: str, value: bytes, headers: Headers) -> "Future[None]":
        if self._producer is None:
            raise BusUnavailable("not connected to Kafka")
        try:
            acknowledged = await self._producer.send(
                self._prefix + topic, value, key=key.encode(), headers=list(headers)
            )
        except MessageSizeTooLargeError as problem:
            raise MessageRefused(repr(problem)) from problem
        except (KafkaTimeoutError, KafkaError) as problem:
            raise BusUnavailable(repr(problem)) from problem
        sent: Future[None] = asyncio.get_running_loop().create_future()
        acknowledged.add_done_callback(lambda done: self._resolve(done, sent))
        self._unacknowledged.append((time.monotonic(), sent))
        return sent

    def _resolve(self, done: "Future[Any]", sent: "Future[None]") -> None:
        waiting = self._unacknowledged
        if not sent.done():
            problem = None if done.cancelled() else done.exception()
            if done.cancelled():
                sent.cancel()
            elif problem is None:
                sent.set_result(None)
            elif isinstance(problem, KafkaError) and problem.retriable:
                sent.set_exception(BusUnavailable(repr(problem)))
            else:
                sent.set_exception(MessageRefused(repr(problem)))
        while waiting and waiting[0][1].done():
            waiting.popleft()

    @property
    def healthy(self) -> bool:
        if self._producer is None:
            return False
        waiting = self._unacknowledged
        while waiting and waiting[0][1].done():
            waiting.popleft()
        return not waiting or time.monotonic() - waiting[0][0] < _UNHEALTHY_SECONDS


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, owner: "KafkaConsumer", assignment: Assignment) -> None:
        self._owner = owner
        self._assignment = assignment

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        await self._assignment.assigned(self._owner.places(assigned))

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        await self._assignment.revoked(self._owner.places(revoked))


class _Reader:
    """What group members and tails share: names, records, errors."""

    _consumer: AIOKafkaConsumer

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def places(self, partitions: set[TopicPartition]) -> frozenset[Partition]:
        return frozenset(Partition(self._declared(tp.topic), tp.partition) for tp in partitions)

    def _declared(self, topic: str) -> str:
        return topic[len(self._prefix) :]

    async def stop(self) -> None:
        try:
            await asyncio.wait_for(self._consumer.stop(), 5.0)
        except (TimeoutError, KafkaError) as problem:
            _log.warning("consumer.stop_failed", problem=repr(problem))

    async def _fetch(self, timeout: float, limit: int | None) -> list[Record]:
        try:
            batches = await self._consumer.getmany(timeout_ms=int(timeout * 1000), max_records=limit)
        except KafkaError as problem:
            raise BusUnavailable(repr(problem)) from problem
        return [self._record(raw) for batch in batches.values() for raw in batch]

    def _record(self, raw: "ConsumerRecord[bytes, bytes]") -> Record:
        return Record(
            topic=self._declared(raw.topic),
            partition=raw.partition,
            offset=raw.offset,
            key=(raw.key or b"").decode(errors="replace"),
            value=raw.value or b"",
            headers=cast(Headers, raw.headers),
        )


class KafkaConsumer(_Reader):
    """A group member. Offsets are committed by hand only."""

    def __init__(
        self,
        servers: str,
        *,
        prefix: str,
        client_id: str,
        group: str,
        topics: Sequence[str],
        assignment: Assignment,
    ) -> None:
        super().__init__(prefix)
        self._topics = [prefix + topic for topic in topics]
        self._assignment = assignment
        self._paused = False
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=servers,
            client_id=client_id,
            group_id=prefix + group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=_FETCH_WAIT_MS,
            max_partition_fetch_bytes=MAX_MESSAGE_BYTES,
            session_timeout_ms=10_000,
            heartbeat_interval_ms=2_000,
            rebalance_timeout_ms=15_000,
            max_poll_interval_ms=120_000,
            metadata_max_age_ms=60_000,
        )

    async def start(self) -> None:
        try:
            await self._consumer.start()
            self._consumer.subscribe(self._topics, listener=_Listener(self, self._assignment))
        except (KafkaError, OSError) as problem:
            raise BusUnavailable(repr(problem)) from problem

    def pause(self, paused: bool) -> None:
        self._paused = paused

    async def poll(self, timeout: float, limit: int) -> list[Record]:
        # A rebalance forgets the pause flags, so they are set again before every fetch.
        assigned = self._consumer.assignment()
        if self._paused:
            self._consumer.pause(*assigned)
        elif self._consumer.paused():
            self._consumer.resume(*self._consumer.paused())
        return await self._fetch(timeout, limit)

    async def commit(self, offsets: dict[Partition, int]) -> None:
        assigned = self._consumer.assignment()
        places = {TopicPartition(self._prefix + place.topic, place.number): at for place, at in offsets.items()}
        held = {place: at for place, at in places.items() if place in assigned}
        if not held:
            return
        try:
            await self._consumer.commit(held)
        except CommitFailedError:
            _log.info("consumer.commit_overtaken", partitions=len(held))
        except KafkaError as problem:
            raise BusUnavailable(repr(problem)) from problem


class KafkaTail(_Reader):
    """A reader of all partitions from the end; positions survive broker restarts."""

    def __init__(self, servers: str, *, prefix: str, client_id: str, topics: Sequence[str]) -> None:
        super().__init__(prefix)
        self._consumer = AIOKafkaConsumer(
            *(prefix + topic for topic in topics),
            bootstrap_servers=servers,
            client_id=client_id,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=_FETCH_WAIT_MS,
            max_partition_fetch_bytes=MAX_MESSAGE_BYTES,
            metadata_max_age_ms=60_000,
        )

    async def start(self) -> None:
        try:
            await self._consumer.start()
            for place, end in (await self._consumer.end_offsets(self._consumer.assignment())).items():
                self._consumer.seek(place, end)
        except (KafkaError, OSError) as problem:
            await self.stop()
            raise BusUnavailable(f"cannot read the topics (do they exist?): {problem!r}") from problem

    async def poll(self, timeout: float) -> list[Record]:
        return await self._fetch(timeout, None)

    async def answering(self) -> bool:
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                await self._consumer.end_offsets(list(self._consumer.assignment())[:1])
        except (KafkaError, TimeoutError):
            return False
        return True
