"""Dead letters as consumers leave them, put straight into Kafka."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson
from aiokafka import AIOKafkaProducer

from libs.contracts.identifiers import new_id
from libs.contracts.messages import Envelope
from libs.contracts.resources.agents import AgentDeleted
from libs.contracts.timestamps import now_text
from libs.eventing import KafkaConnection

DLQ = "registry-events-timeline-dlq"


async def put_letter(
    kafka: KafkaConnection, company_id: str, correlation_id: str, *, reason: str = "no such kind", **payload: Any
) -> str:
    """Puts an event of that company aside and returns the letter's id."""
    envelope = Envelope(
        id=new_id(),
        type=AgentDeleted.TYPE,
        source="/aes/registry",
        subject=new_id(),
        time=now_text(),
        correlation_id=correlation_id,
        company_id=company_id,
        sequence=1,
    )
    marks = {"dlq_topic": "registry-events", "dlq_partition": "0", "dlq_offset": "0", "dlq_reason": reason}
    marks |= {"dlq_attempts": "4", "dlq_time": now_text(), "ce_identity": "signed-identity"}
    headers = [*envelope.headers(), *((name, value.encode()) for name, value in marks.items())]
    value = orjson.dumps({"agent_id": envelope.subject, "agent_key": "desk", **payload})
    async with AIOKafkaProducer(**kafka.options()) as producer:
        stored = await producer.send_and_wait(DLQ, value, key=correlation_id.encode(), headers=headers)
    return f"{DLQ}.{stored.offset}"


def put_letter_now(kafka: KafkaConnection, company_id: str, correlation_id: str, **given: Any) -> str:
    """``put_letter`` for tests of the browser, whose thread has an event loop already."""
    with ThreadPoolExecutor(1) as other:
        return other.submit(asyncio.run, put_letter(kafka, company_id, correlation_id, **given)).result()
