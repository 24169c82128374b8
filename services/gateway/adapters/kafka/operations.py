"""Kafka as operators ask it: dead letters and the lag of groups."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from libs.eventing import KafkaConnection
from libs.eventing.dead_letters import (
    DeadLetter,
    DeadLetterReader,
    DeadLetterTopic,
    ReplayOutcome,
    TopicContent,
    open_dead_letters,
    open_replay,
)
from libs.eventing.lag import GroupLag, read_consumer_lag

_CLIENT: Final = "aes-gateway-operations"


class KafkaDeadLetterSession:
    def __init__(self, reader: DeadLetterReader) -> None:
        self._reader = reader

    async def contents(self, wanted: Sequence[DeadLetterTopic]) -> dict[DeadLetterTopic, TopicContent]:
        return await self._reader.contents(wanted)

    async def messages(self, topic: DeadLetterTopic, first: int, end: int) -> Sequence[DeadLetter]:
        return await self._reader.messages(topic, first, end)

    async def message(self, topic: DeadLetterTopic, offset: int) -> DeadLetter:
        return await self._reader.message(topic, offset)

    async def replay(self, topic: DeadLetterTopic, offset: int) -> ReplayOutcome:
        async with open_replay(self._reader, topic, client_id=_CLIENT) as replay:
            [outcome] = [each async for each in replay.run([offset])]
        return outcome


class KafkaDeadLetters:
    def __init__(self, connection: KafkaConnection, prefix: str) -> None:
        self._connection = connection
        self._prefix = prefix

    @asynccontextmanager
    async def open(self) -> AsyncIterator[KafkaDeadLetterSession]:
        async with open_dead_letters(self._connection, self._prefix, client_id=_CLIENT) as reader:
            yield KafkaDeadLetterSession(reader)


class KafkaConsumerGroups:
    def __init__(self, connection: KafkaConnection, prefix: str) -> None:
        self._connection = connection
        self._prefix = prefix

    async def lag(self) -> Sequence[GroupLag]:
        return await read_consumer_lag(self._connection, self._prefix, client_id=_CLIENT)
