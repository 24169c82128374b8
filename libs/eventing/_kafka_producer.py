"""The Kafka implementation of ``Producer``."""

import asyncio
import time
from asyncio import Future
from collections import deque
from typing import Any, Final

import structlog
from aiokafka import AIOKafkaProducer
from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    KafkaError,
    MessageSizeTooLargeError,
    OutOfOrderSequenceNumber,
    ProducerClosed,
    ProducerFenced,
    TopicAuthorizationFailedError,
    UnknownProducerId,
)

from libs.contracts.topics import MAX_MESSAGE_BYTES
from libs.eventing._kafka_connection import BrokerArrival, KafkaConnection
from libs.eventing.bus import BusUnavailable, Headers, MessageRefused
from libs.retry import RetryPolicy

_log = structlog.get_logger("eventing.kafka")
_RECONNECT: Final = RetryPolicy(first=1.0, longest=1.0)
_UNHEALTHY_SECONDS: Final = 3.0
_STOP_SECONDS: Final = 3.0
# Errors of the client's state. A new client can deliver the message.
_PRODUCER_SPENT: Final = (
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    OutOfOrderSequenceNumber,
    ProducerClosed,
    ProducerFenced,
    UnknownProducerId,
)

# Errors of missing permissions. The message can be sent as soon as the permissions are granted.
_NOT_ALLOWED: Final = (ClusterAuthorizationFailedError, TopicAuthorizationFailedError)


class KafkaProducer:
    """An idempotent producer. To preserve the order through an outage, it retries until the process ends.

    After rejecting a batch, the broker rejects all further messages of that partition, so the producer replaces the
    aiokafka client. If permissions for a topic are missing, the producer keeps the client, since a replacement would
    delay all other topics.
    """

    def __init__(self, connection: KafkaConnection, arrival: BrokerArrival, *, prefix: str, client_id: str) -> None:
        self._prefix = prefix
        self._connection = connection
        self._arrival = arrival
        self._settings: dict[str, Any] = {
            **connection.options(),
            "client_id": client_id,
            "acks": "all",
            "enable_idempotence": True,
            "linger_ms": 0,
            "max_batch_size": MAX_MESSAGE_BYTES,
            "max_request_size": MAX_MESSAGE_BYTES,
            "request_timeout_ms": 10_000,
            "retry_backoff_ms": 250,
            "metadata_max_age_ms": 60_000,
        }
        self._producer: AIOKafkaProducer | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._unacknowledged: deque[tuple[float, Future[Any]]] = deque()

    async def start(self) -> None:
        self._connecting = asyncio.create_task(self._connect(), name="kafka.producer.connect")

    async def _connect(self) -> None:
        def log(problem: Exception, _attempt: int) -> None:
            _log.warning("producer.unreachable", problem=str(problem))

        await self._arrival.wait()
        self._producer = await _RECONNECT.run(self._connected, on=BusUnavailable, before_sleep=log)

    async def _connected(self) -> AIOKafkaProducer:
        producer = AIOKafkaProducer(**self._settings)
        try:
            await producer.start()
        except BaseException as problem:
            await self._end(producer)
            if not isinstance(problem, Exception):
                raise
            raise BusUnavailable(await self._reason(problem)) from problem
        return producer

    async def _reason(self, problem: Exception) -> str:
        # For a wrong password or certificate, aiokafka reports only that it couldn't connect.
        secured = self._connection.security_protocol != "plaintext"
        return (await self._connection.refusal() if secured else None) or repr(problem)

    async def stop(self) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait({self._connecting})
        producer, self._producer = self._producer, None
        if producer is not None:
            await self._end(producer)

    async def _end(self, producer: AIOKafkaProducer) -> None:
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await producer.stop()
        except TimeoutError:
            _log.warning("producer.undelivered", messages=len(self._unacknowledged))
        except Exception as problem:
            _log.warning("producer.stop_failed", problem=repr(problem))

    def _replace_if_spent(self, producer: AIOKafkaProducer, problem: BaseException) -> None:
        if self._producer is not producer or isinstance(problem, TopicAuthorizationFailedError):
            return
        _log.warning("producer.replaced", problem=repr(problem))
        self._producer = None

        async def replace() -> None:
            # The old client delivers its messages before the new client sends, which preserves the order.
            await self._end(producer)
            await self._connect()

        self._connecting = asyncio.create_task(replace(), name="kafka.producer.replace")

    async def send(self, topic: str, key: str, value: bytes, headers: Headers) -> "Future[None]":
        producer = self._producer
        if producer is None:
            raise BusUnavailable("not connected to Kafka")
        try:
            acknowledged = await producer.send(self._prefix + topic, value, key=key.encode(), headers=list(headers))
        except MessageSizeTooLargeError as problem:
            raise MessageRefused(repr(problem)) from problem
        except KafkaError as problem:
            self._replace_if_spent(producer, problem)
            raise BusUnavailable(repr(problem)) from problem
        sent: Future[None] = asyncio.get_running_loop().create_future()
        acknowledged.add_done_callback(lambda done: self._resolve(producer, done, sent))
        self._unacknowledged.append((time.monotonic(), acknowledged))
        return sent

    def _resolve(self, producer: AIOKafkaProducer, done: "Future[Any]", sent: "Future[None]") -> None:
        problem = BusUnavailable("the producer was stopped") if done.cancelled() else done.exception()
        if problem is not None:
            self._replace_if_spent(producer, problem)
        # The waiting task may have been cancelled.
        if sent.done():
            return
        if problem is None:
            sent.set_result(None)
        else:
            sent.set_exception(_as_port_error(problem))
            sent.exception()

    @property
    def healthy(self) -> bool:
        if self._producer is None:
            return False
        waiting = self._unacknowledged
        while waiting and waiting[0][1].done():
            waiting.popleft()
        return not waiting or time.monotonic() - waiting[0][0] < _UNHEALTHY_SECONDS


def _as_port_error(problem: BaseException) -> Exception:
    # aiokafka's sender reports its own failures as plain KafkaError.
    if type(problem) is KafkaError or not isinstance(problem, KafkaError):
        return BusUnavailable(repr(problem))
    if problem.retriable or isinstance(problem, (*_PRODUCER_SPENT, *_NOT_ALLOWED)):
        return BusUnavailable(repr(problem))
    return MessageRefused(repr(problem))
