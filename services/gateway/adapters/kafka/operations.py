"""Kafka as operators ask it: dead letters and the lag of groups."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final

from libs.eventing import KafkaConnection
from libs.eventing.dead_letters import DeadLetterSession, open_dead_letters
from libs.eventing.lag import GroupLag, read_consumer_lag

_CLIENT: Final = "aes-gateway-operations"


class KafkaDeadLetters:
    def __init__(self, connection: KafkaConnection, prefix: str) -> None:
        self._connection = connection
        self._prefix = prefix

    def open(self) -> AbstractAsyncContextManager[DeadLetterSession]:
        return open_dead_letters(self._connection, self._prefix, client_id=_CLIENT)


class KafkaConsumerGroups:
    def __init__(self, connection: KafkaConnection, prefix: str) -> None:
        self._connection = connection
        self._prefix = prefix

    async def lag(self) -> Sequence[GroupLag]:
        return await read_consumer_lag(self._connection, self._prefix, client_id=_CLIENT)
