"""The broker port. The Kafka and in-memory implementations pass the same test suite."""

from asyncio import Future
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from libs.contracts.messages import Envelope, MalformedEnvelope, envelope_from

Headers = Sequence[tuple[str, bytes]]


class BusUnavailable(Exception):
    """The broker can't be reached or doesn't respond in time."""


class MessageRefused(Exception):
    """The broker rejected this message permanently: it's too large, or its topic is unknown."""


class PoisonMessage(Exception):
    """A message that can never be processed, however often it's retried."""


class Partition(NamedTuple):
    topic: str
    number: int


class StaleOffset(Exception):
    """Another process has already stored later offsets. This process must resume after them."""


class OffsetMove(NamedTuple):
    """A partition's next offset before and after a batch; None before the first batch."""

    before: int | None
    after: int


@dataclass(slots=True)
class Record:
    """A message in a partition. ``topic`` is the declared name, without any prefix.

    ``published``: Unix seconds by the producer's clock. ``fetched``: seconds by this process's loop clock.
    """

    topic: str
    partition: int
    offset: int
    key: str
    value: bytes
    headers: Headers
    published: float = 0.0
    fetched: float = 0.0

    @property
    def topic_partition(self) -> Partition:
        return Partition(self.topic, self.partition)

    def envelope(self) -> Envelope:
        """Decodes the headers. Raises ``PoisonMessage``."""
        try:
            return envelope_from(self.headers)
        except MalformedEnvelope as problem:
            raise PoisonMessage(str(problem)) from problem


class Producer(Protocol):
    """Sends messages. Messages with the same key arrive in the order of the ``send`` calls."""

    async def start(self) -> None:
        """Starts connecting and returns immediately. Connecting continues in the background until it succeeds."""

    async def stop(self) -> None:
        """Delivers accepted messages, for at most a few seconds."""

    async def send(self, topic: str, key: str, value: bytes, headers: Headers) -> "Future[None]":
        """Queues a message. The future resolves once the broker has stored it, or fails with ``MessageRefused``.

        Raises ``BusUnavailable`` without a connection. During an outage, the future stays pending. The message is
        delivered once the broker is back, unless this process ends first.
        """

    @property
    def healthy(self) -> bool:
        """Whether the broker acknowledges messages."""


def problem_of(acknowledged: "Future[None]") -> Exception | None:
    """Returns why the broker hasn't stored a message yet, or None if it has."""
    if not acknowledged.done():
        return BusUnavailable("the broker didn't confirm in time")
    problem = acknowledged.exception()
    return problem if isinstance(problem, Exception) else None


class Assignment(Protocol):
    """Callbacks about a consumer's partitions. The group waits for both."""

    async def assigned(self, partitions: frozenset[Partition]) -> None: ...

    async def revoked(self, partitions: frozenset[Partition]) -> None: ...


class Consumer(Protocol):
    """A group member. Members have the same partition numbers of all topics.

    It starts at the group's committed offsets, or at those set by ``seek``. A new group starts at the earliest message.
    """

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def seek(self, offsets: Mapping[Partition, int]) -> frozenset[Partition]:
        """Continues at these offsets. Assigned partitions without a valid offset continue at the earliest message.

        Returns the assigned partitions. Raises ``BusUnavailable``.
        """

    async def poll(self, timeout: float, limit: int, partitions: "frozenset[Partition] | None" = None) -> list[Record]:
        """Returns up to ``limit`` records, waiting at most ``timeout`` seconds for the first.

        With ``partitions``, only those are fetched, and only during a poll. The next poll returns all records since
        then. Raises ``BusUnavailable``.
        """

    async def drained(self) -> dict[Partition, float]:
        """Returns when each partition was last known to have no unpolled records, by the loop's clock."""

    async def positions(self) -> "dict[Partition, tuple[int, int]]":
        """Returns the next offset to fetch and the end offset of each assigned partition. Raises ``BusUnavailable``."""

    async def commit(self, offsets: dict[Partition, int]) -> None:
        """Commits these offsets, below which all messages are finished. Raises ``BusUnavailable``."""


class Tail(Protocol):
    """A reader of whole topics without a group. Every replica reads everything."""

    @property
    def offsets(self) -> Mapping[Partition, int]:
        """The next offset of each partition, where another reader can continue."""

    async def start(self) -> None:
        """Returns once the reader is positioned. It returns every message sent from then on."""

    async def stop(self) -> None: ...

    async def poll(self, timeout: float) -> list[Record]:
        """Returns new records, waiting at most ``timeout`` seconds for the first. Raises ``BusUnavailable``."""

    async def caught_up(self) -> bool:
        """Returns whether every message from before the start has been returned. Raises ``BusUnavailable``."""

    def answered(self) -> float:
        """Returns when the broker last confirmed the next offset of every partition, by the loop's clock."""


class Bus(Protocol):
    """Creates producers and readers of a broker. Adds the prefix to topic and group names."""

    def producer(self) -> Producer: ...

    def consumer(self, group: str, topics: Sequence[str], assignment: Assignment, *, linger: bool = False) -> Consumer:
        """Creates a group member. With ``linger``, a fetch waits up to half a second for several messages."""

    def tail(
        self, topics: Sequence[str], *, from_start: bool = False, offsets: Mapping[Partition, int] | None = None
    ) -> Tail:
        """Creates a reader that starts at the given offsets.

        Other partitions start at the end, or with ``from_start`` at the beginning.
        """
