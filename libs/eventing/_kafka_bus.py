"""The Kafka implementation of the broker port."""

from collections.abc import Mapping, Sequence
from typing import Final

from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.range import RangePartitionAssignor

from libs.contracts.topics import MAX_MESSAGE_BYTES
from libs.eventing._kafka_connection import BrokerArrival, KafkaConnection
from libs.eventing._kafka_consumer import KafkaConsumer, KafkaTail
from libs.eventing._kafka_groups import KafkaGroups, member_client_id
from libs.eventing._kafka_producer import KafkaProducer
from libs.eventing.bus import Assignment, Partition

# After a rebalance, the next fetch waits for the previous one.
_FETCH_WAIT_MS: Final = 500
# Tails have no group and don't rebalance. A tail counts as up to date for ten seconds after a completed fetch.
_TAIL_FETCH_WAIT_MS: Final = 5000
_LINGER_BYTES: Final = 256 * 1024


class KafkaBus:
    """Creates producers and readers for a Kafka cluster.

    ``prefix`` is prepended to every topic and group, so that installations can share a cluster. ``member_id`` is the
    client ID of this process's group members, and contains the number ``process``.
    """

    def __init__(
        self,
        connection: KafkaConnection | str,
        *,
        prefix: str = "",
        client_id: str = "aes",
        process: int | None = None,
    ) -> None:
        self._connection = KafkaConnection.of(connection)
        self._arrival = BrokerArrival(self._connection)
        self._prefix = prefix
        self._client_id = client_id
        self.member_id = client_id if process is None else member_client_id(client_id, process)

    def groups(self) -> KafkaGroups:
        return KafkaGroups(self._connection, prefix=self._prefix, client_id=self._client_id)

    def producer(self) -> KafkaProducer:
        return KafkaProducer(self._connection, self._arrival, prefix=self._prefix, client_id=self._client_id)

    def consumer(
        self, group: str, topics: Sequence[str], assignment: Assignment, *, linger: bool = False
    ) -> KafkaConsumer:
        client = self._client(self._prefix + group, linger=linger)
        return KafkaConsumer(
            client, self._arrival, self._prefix, assignment, [self._prefix + topic for topic in topics]
        )

    def tail(
        self, topics: Sequence[str], *, from_start: bool = False, offsets: Mapping[Partition, int] | None = None
    ) -> KafkaTail:
        # In a recreated topic, stored offsets are invalid. No reader needs the topic's older records.
        names = [self._prefix + topic for topic in topics]
        client = self._client(None, *names, reset="earliest" if from_start else "latest")
        return KafkaTail(client, self._arrival, self._prefix, from_start=from_start, offsets=offsets)

    def _client(
        self, group: str | None, *topics: str, linger: bool = False, reset: str = "earliest"
    ) -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            *topics,
            **self._connection.options(),
            client_id=self._client_id if group is None else self.member_id,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset=reset,
            fetch_max_wait_ms=_TAIL_FETCH_WAIT_MS if group is None else _FETCH_WAIT_MS,
            fetch_min_bytes=_LINGER_BYTES if linger else 1,
            max_partition_fetch_bytes=MAX_MESSAGE_BYTES,
            # aiokafka checks what to fetch twice a second, instead of five times by default. A longer pause would delay
            # records that arrive just as a request ends.
            consumer_timeout_ms=500,
            # A member gets the same partition numbers of all topics, and thus all records of a key.
            partition_assignment_strategy=(RangePartitionAssignor,),
            # How long a busy process may be silent. Members of dead processes are removed sooner.
            session_timeout_ms=10_000,
            # This interval determines how soon a member notices a rebalance.
            heartbeat_interval_ms=1000,
            # aiokafka's default, the session timeout, is too short to drain an open transaction.
            rebalance_timeout_ms=15_000,
            max_poll_interval_ms=120_000,
            metadata_max_age_ms=60_000,
            # All clients retry at this rate while the broker starts, possibly on the same CPU.
            retry_backoff_ms=500,
        )
