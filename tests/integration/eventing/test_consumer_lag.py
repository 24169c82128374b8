"""Lag of consumer groups on a real broker."""

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.structs import OffsetAndMetadata

from libs.contracts.topics import RUNTIME_COMMANDS
from libs.eventing import KafkaBus, KafkaConnection
from libs.eventing.administration import create_topics
from libs.eventing.lag import read_consumer_lag
from tests.support.waiting import until


async def test_lag_is_what_is_not_committed_yet(kafka: str, topic_prefix: str) -> None:
    await create_topics(kafka, topic_prefix, topics=(RUNTIME_COMMANDS,))
    producer = KafkaBus(kafka, prefix=topic_prefix).producer()
    await producer.start()
    await until(lambda: producer.healthy)
    for _ in range(5):
        await (await producer.send(RUNTIME_COMMANDS.name, "one key", b"{}", []))
    await producer.stop()
    connection = KafkaConnection(servers=kafka)
    assert await read_consumer_lag(connection, topic_prefix, client_id="test") == []

    partition = await _commit(kafka, topic_prefix, "runtime-commands", behind=2)
    await _commit(kafka, topic_prefix, "somebody-else", behind=0)

    [found] = await read_consumer_lag(connection, topic_prefix, client_id="test")
    assert (found.group, found.topic, found.lag, found.members) == ("runtime-commands", "runtime-commands", 2, 0)
    assert len(found.partitions) == RUNTIME_COMMANDS.partitions
    by_number = {each.partition: each for each in found.partitions}
    assert (by_number[partition].committed, by_number[partition].end) == (3, 5)
    assert {each.committed for number, each in by_number.items() if number != partition} == {None}


async def _commit(kafka: str, prefix: str, group: str, *, behind: int) -> int:
    """Commits as a member of the group would, and returns the partition that has the messages."""
    consumer = AIOKafkaConsumer(bootstrap_servers=kafka, group_id=prefix + group, enable_auto_commit=False)
    await consumer.start()
    try:
        name = prefix + RUNTIME_COMMANDS.name
        every = [TopicPartition(name, number) for number in range(RUNTIME_COMMANDS.partitions)]
        consumer.assign(every)
        ends = await consumer.end_offsets(every)
        [partition] = [each for each, end in ends.items() if end]
        await consumer.commit({partition: OffsetAndMetadata(ends[partition] - behind, "")})
        return int(partition.partition)
    finally:
        await consumer.stop()
