"""The port to the broker. The Kafka and in-memory implementations pass the same test suite."""

from asyncio import Future
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

Headers = Sequence[tuple[str, bytes]]


class BusUnavailable(Exception):
    """The broker can't be reached or doesn't respond in time."""


class MessageRefused(Exception):
    """The broker rejected the message permanently, for example because it's too large."""


class Partition(NamedTuple):
    topic: str
    number: int


class StaleOffset(Exception):
    """Another process has stored later offsets. This process must resume after these offsets."""


class OffsetMove(NamedTuple):
    """The next offset of a partition before and after a batch. ``before`` is None for the first batch."""

    before: int | None
    after: int


@dataclass(slots=True)
class Record:
    """A message in a partition. ``topic`` is the declared name, without any prefix.

    ``published`` is in Unix seconds by the producer's clock, ``fetched`` in seconds by this process's loop clock.
    """

    topic: str
    partition: int
    offset: int
    key: str
    value: bytes
    headers: Headers
    published: float = 0.0
    fetched: float = 0.0


class Producer(Protocol):
    """Sends messages. Messages with the same key arrive in the order of the calls to ``send``."""

    async def start(self) -> None:
        """Starts connecting in the background and returns immediately."""

    async def stop(self) -> None:
        """Delivers queued messages for a few seconds at most, then disconnects."""

    async def send(self, topic: str, key: str, value: bytes, headers: Headers) -> "Future[None]":
        """Queues a message. Raises ``BusUnavailable`` if the producer isn't connected.

        The returned future resolves once the broker has stored the message, or fails with ``MessageRefused``. During an
        outage, the future stays pending, and the message is delivered once the broker is back.
        """

    @property
    def healthy(self) -> bool:
        """Returns whether the broker acknowledges messages."""


def problem_of(acknowledged: "Future[None]") -> Exception | None:
    """Returns the reason why the broker hasn't stored a message, or None if the message is stored."""
    if not acknowledged.done():
        return BusUnavailable("the broker didn't confirm in time")
    problem = acknowledged.exception()
    return problem if isinstance(problem, Exception) else None


class Assignment(Protocol):
    """Receives changes to a consumer's partitions. The group's rebalance waits for the methods to return."""

    async def assigned(self, partitions: frozenset[Partition]) -> None: ...

    async def revoked(self, partitions: frozenset[Partition]) -> None: ...


class Consumer(Protocol):
    """A member of a consumer group. A member gets the same partition numbers of all topics.

    Reading starts at the group's committed offsets, or at the earliest message of a new group.
    """

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def seek(self, offsets: Mapping[Partition, int]) -> frozenset[Partition]:
        """Continues reading at these offsets. Assigned partitions without a valid offset are read from the start.

        Returns the assigned partitions. Raises ``BusUnavailable``.
        """

    async def poll(self, timeout: float, limit: int, partitions: "frozenset[Partition] | None" = None) -> list[Record]:
        """Returns up to ``limit`` records. Waits at most ``timeout`` seconds for a record. Raises ``BusUnavailable``.

        If ``partitions`` is set, only these partitions are fetched, and only during a poll. So the next poll returns
        all records that have arrived in the meantime.
        """

    async def drained(self) -> dict[Partition, float]:
        """Returns the time, by the loop's clock, when each partition last had no records left to poll."""

    async def positions(self) -> "dict[Partition, tuple[int, int]]":
        """Returns the next offset and the end offset of each assigned partition. Raises ``BusUnavailable``."""

    async def commit(self, offsets: dict[Partition, int]) -> None:
        """Commits offsets. All messages below an offset must be finished. Raises ``BusUnavailable``."""


class Tail(Protocol):
    """A reader of whole topics, without a consumer group."""

    @property
    def offsets(self) -> Mapping[Partition, int]:
        """Returns the next offset of each partition, from which another reader can continue."""

    async def start(self) -> None:
        """Positions the reader. ``poll`` returns every message sent after this method has returned."""

    async def stop(self) -> None: ...

    async def poll(self, timeout: float) -> list[Record]:
        """Returns new records. Waits at most ``timeout`` seconds for a record. Raises ``BusUnavailable``."""

    async def caught_up(self) -> bool:
        """Returns whether ``poll`` has returned every message sent before ``start``. Raises ``BusUnavailable``."""

    def answered(self) -> float:
        """Returns the time, by the loop's clock, when the broker last confirmed every partition's next offset."""


class Bus(Protocol):
    """Creates producers and readers for a broker. Adds the installation's prefix to topics and groups."""

    def producer(self) -> Producer: ...

    def consumer(self, group: str, topics: Sequence[str], assignment: Assignment, *, linger: bool = False) -> Consumer:
        """Creates a group member. With ``linger``, a fetch waits up to half a second for several messages."""

    def tail(
        self, topics: Sequence[str], *, from_start: bool = False, offsets: Mapping[Partition, int] | None = None
    ) -> Tail:
        """Creates a reader that starts at ``offsets``.

        Partitions without an offset are read from the end. With ``from_start``, they're read from the beginning.
        """
