"""The broker port. Two implementations pass the same test suite: Kafka and one in memory."""

from asyncio import Future
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from libs.contracts.messages import Envelope, MalformedEnvelope, envelope_from

Headers = Sequence[tuple[str, bytes]]


class BusUnavailable(Exception):
    """The broker cannot be reached or does not answer in time."""


class MessageRefused(Exception):
    """The broker answered, but will never take this message (too large, unknown topic)."""


class PoisonMessage(Exception):
    """A message that can never be processed, however often it is retried."""


class Partition(NamedTuple):
    topic: str
    number: int


class Overtaken(Exception):
    """Another process has already handled later offsets; this one has to resume after them."""


class OffsetMove(NamedTuple):
    """The next offset of a partition before and after a batch; None before the first one."""

    before: int | None
    after: int


@dataclass(slots=True)
class Record:
    """A message in a partition. ``topic`` is the declared name, without any prefix.

    ``published``: seconds since 1970 by the clock of its producer. ``fetched``: by the clock of this process's loop.
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
        """Raises ``PoisonMessage``."""
        try:
            return envelope_from(self.headers)
        except MalformedEnvelope as problem:
            raise PoisonMessage(str(problem)) from problem


class Producer(Protocol):
    """Sends in order: two messages of one key arrive in the order in which ``send`` was called."""

    async def start(self) -> None:
        """Returns at once; connecting goes on in the background until it succeeds."""

    async def stop(self) -> None:
        """Delivers what was taken, within a few seconds."""

    async def send(self, topic: str, key: str, value: bytes, headers: Headers) -> "Future[None]":
        """Queue a message; the future ends when the broker has it, or with ``MessageRefused``.

        Raises ``BusUnavailable`` when there is no connection. A future that does not end means an outage: the
        message is delivered when the broker is back, unless this process ends first.
        """

    @property
    def healthy(self) -> bool:
        """Whether the broker acknowledges what it is sent."""


def problem_of(acknowledged: "Future[None]") -> Exception | None:
    """Why the broker does not have a message yet; None when it has."""
    if not acknowledged.done():
        return BusUnavailable("the broker did not confirm in time")
    problem = acknowledged.exception()
    return problem if isinstance(problem, Exception) else None


class Assignment(Protocol):
    """Callbacks of a consumer about its partitions. Both are awaited before the group goes on."""

    async def assigned(self, partitions: frozenset[Partition]) -> None: ...

    async def revoked(self, partitions: frozenset[Partition]) -> None: ...


class Consumer(Protocol):
    """A member of a group, in which members own the partitions of the same numbers of all topics.

    It begins at the group's commits, or where ``seek`` tells it; a new group begins at the earliest message.
    """

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def seek(self, offsets: Mapping[Partition, int]) -> frozenset[Partition]:
        """Continue at these offsets; at the earliest message of assigned partitions that have none, or no such offset.

        Returns the assigned partitions. Raises ``BusUnavailable``.
        """

    async def poll(self, timeout: float, limit: int, partitions: "frozenset[Partition] | None" = None) -> list[Record]:
        """Up to ``limit`` records, waiting at most ``timeout`` seconds for the first. Raises ``BusUnavailable``.

        With ``partitions`` nothing else is fetched, nor anything between polls: the next poll gets all that has come.
        """

    async def drained(self) -> dict[Partition, float]:
        """When each partition was last found to have no unpolled record, by the clock of the loop."""

    async def positions(self) -> "dict[Partition, tuple[int, int]]":
        """The next offset to be fetched and the end of each assigned partition. Raises ``BusUnavailable``."""

    async def commit(self, offsets: dict[Partition, int]) -> None:
        """Commit that everything before these offsets is done. Raises ``BusUnavailable``."""


class Tail(Protocol):
    """A reader of whole topics, without a group: every replica sees everything."""

    @property
    def offsets(self) -> Mapping[Partition, int]:
        """The offsets after what it has given out, by partition: another reader can go on there."""

    async def start(self) -> None:
        """Returns once the reader is in position: everything sent from then on will be read."""

    async def stop(self) -> None: ...

    async def poll(self, timeout: float) -> list[Record]:
        """New records, waiting at most ``timeout`` seconds for the first. Raises ``BusUnavailable``."""

    async def caught_up(self) -> bool:
        """Whether everything that was there at the start has been given out. Raises ``BusUnavailable``."""

    def answered(self) -> float:
        """When the broker last said of every partition what comes next there, by the clock of the loop."""


class Bus(Protocol):
    """Makes producers and readers of a broker. Names of topics and groups are prefixed inside."""

    def producer(self) -> Producer: ...

    def consumer(self, group: str, topics: Sequence[str], assignment: Assignment, *, linger: bool = False) -> Consumer:
        """A group member. ``linger`` lets messages wait up to half a second for others to be fetched with."""

    def tail(
        self, topics: Sequence[str], *, from_start: bool = False, offsets: Mapping[Partition, int] | None = None
    ) -> Tail:
        """A reader from the given offsets on, in other partitions from the end or from the first record kept."""
