"""Ports of the operations API: processes, groups of consumers, dead letters."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from libs.eventing import DeadLetter, DeadLetterTopic, GroupLag, ReplayOutcome, TopicContent
from services.gateway.domain.operations import ReplicaHealth


class ServiceHealth(Protocol):
    async def replicas(self) -> Sequence[ReplicaHealth]:
        """All processes whose addresses are known. Raises nothing, and answers within a few seconds."""


class ConsumerGroups(Protocol):
    async def lag(self) -> Sequence[GroupLag]:
        """Raises ``BusUnavailable``."""


class DeadLetterSession(Protocol):
    """A connection to the dead-letter topics."""

    async def contents(self, wanted: Sequence[DeadLetterTopic]) -> dict[DeadLetterTopic, TopicContent]:
        """The content of each wanted topic that exists."""

    async def messages(self, topic: DeadLetterTopic, first: int, end: int) -> Sequence[DeadLetter]:
        """Letters with offsets from ``first`` to before ``end``, oldest first, without their payloads."""

    async def message(self, topic: DeadLetterTopic, offset: int) -> DeadLetter:
        """Raises ``NotFound`` when there is none."""

    async def replay(self, topic: DeadLetterTopic, offset: int) -> ReplayOutcome:
        """Sends the letter to where it came from, unless that was done before.

        Raises ``ReplayOvertaken`` when another process has begun to replay the topic; nothing was sent then.
        """


class DeadLetterBox(Protocol):
    def open(self) -> AbstractAsyncContextManager[DeadLetterSession]:
        """Raises ``BusUnavailable``, also when the broker fails meanwhile."""
