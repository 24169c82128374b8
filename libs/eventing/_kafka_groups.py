"""Removes the members of dead processes from Kafka consumer groups."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Final

import structlog
from aiokafka import AIOKafkaClient
from aiokafka.client import CoordinationType
from aiokafka.errors import KafkaError, for_code
from aiokafka.protocol.admin import DescribeGroupsRequest
from aiokafka.protocol.group import LeaveGroupRequest

from libs.eventing._kafka_connection import KafkaConnection
from libs.eventing.bus import BusUnavailable

_log = structlog.get_logger("eventing.kafka")
_ANSWER_SECONDS: Final = 5.0
Gone = Callable[[Collection[int]], Collection[int]]
"""Returns the numbers of the processes that have ended."""


def member_client_id(client_id: str, process: int) -> str:
    """Returns the client ID of a process's group members."""
    return f"{client_id}-{process}"


def _process_of(client_id: str) -> int | None:
    number = client_id.rpartition("-")[2]
    return int(number) if number.isascii() and number.isdecimal() else None


class KafkaGroups:
    """Removes the members of dead processes, so that Kafka reassigns their partitions before the session timeout."""

    def __init__(self, connection: KafkaConnection, *, prefix: str, client_id: str) -> None:
        self._connection = connection
        self._prefix = prefix
        self._client_id = client_id

    async def expel(self, groups: Sequence[str], gone: Gone) -> int:
        """Removes the members of dead processes. Returns the number of removed members. Raises ``BusUnavailable``."""
        client = AIOKafkaClient(**self._connection.options(), client_id=self._client_id)
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                await client.bootstrap()
                if client.get_random_node() is None:
                    # The cluster is still starting, and aiokafka asserts that there is a broker.
                    raise BusUnavailable("the cluster has no broker yet")
                return sum([await self._expel(client, self._prefix + group, gone) for group in groups])
        except (KafkaError, OSError, TimeoutError) as problem:
            raise BusUnavailable(repr(problem)) from problem
        finally:
            await client.close()

    async def _expel(self, client: AIOKafkaClient, group: str, gone: Gone) -> int:
        coordinator = await client.coordinator_lookup(CoordinationType.GROUP, group)
        # One group per request, since aiokafka decodes the newest response version as the previous one, which works
        # only for a single group.
        answer = await client.send(coordinator, DescribeGroupsRequest([group]))
        [(_, _, _, _, _, members)] = answer.groups
        found = [(row[0], process) for row in members if (process := _process_of(row[1])) is not None]
        ended = gone({process for _, process in found})
        expelled = [(member, process) for member, process in found if process in ended]
        for member, process in expelled:
            answer = await client.send(coordinator, LeaveGroupRequest(group, member))
            # Other processes may have removed the members first.
            _log.info(
                "group.member_expelled", group=group, process=process, answer=for_code(answer.error_code).__name__
            )
        return len(expelled)
