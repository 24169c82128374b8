"""Operators see the operations, and nobody else can produce a command again."""

from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord

from libs.contracts.identifiers import new_id
from libs.contracts.topics import REGISTRY_COMMANDS, dead_letter_name
from libs.eventing import KafkaConnection
from tests.e2e.api import Api, configuration, new_client, unique
from tests.e2e.event_log import EventLog
from tests.e2e.running_stack import RunningStack
from tests.support.waiting import until

EXPECTED = {"gateway": 1, "registry": 1, "runtime": 1, "ingestion": 2, "artifacts": 1, "timeline": 1}
GROUPS = {"timeline-log", "registry-commands", "runtime-commands"}


async def test_operators_see_every_process_and_every_group(api: Api) -> None:
    async def all_ready() -> bool:
        services = (await api.http.get("/operations/services/")).json()["services"]
        return {each["service"]: each["total"] for each in services if each["status"] == "ready"} == EXPECTED

    async def all_groups() -> dict[str, Any] | None:
        answer = await api.http.get("/operations/consumers/")
        known = {each["group"] for each in answer.json().get("consumers", ())}
        return answer.json() if known >= GROUPS else None

    await until(all_ready)
    found = await until(all_groups)
    assert "dead-letter-replay" not in {each["group"] for each in found["consumers"]}
    assert found["lag"] == sum(part["lag"] for each in found["consumers"] for part in each["partitions"])


@pytest.mark.slow(covered_by="unit/cli/test_doctor.py::test_a_check_that_breaks_off_is_a_finding_with_its_remedy")
def test_a_running_stack_is_healthy(breakable: RunningStack) -> None:
    examined = breakable.aes("doctor")

    checks = {finding["check"]: finding["state"] for finding in examined["findings"]}
    assert examined["examined"] == f"the embedded stack in {breakable.home}"
    assert {"topics", "clock of kafka", "migrations of runtime", "signing key"} <= checks.keys()
    # Processes that another test has killed are named as restarted.
    assert any(check == "stack" or check.startswith("process ") for check in checks)
    assert "failed" not in checks.values()
    assert breakable.aes("dlq", "list", "--all")["topics"]


CHANGED = {"ce_id", "ce_subject", "ce_expiresat"}


@pytest.mark.rule(15)
async def test_a_command_of_a_revoked_key_cannot_be_produced_again(
    api: Api, stack: RunningStack, event_log: EventLog
) -> None:
    key = (await api.http.post("/api-keys/", json={"name": unique("key")})).json()
    label, name = unique("label"), unique("Replayed")
    async with new_client(stack.base_url, key["secret"]) as client:
        created = await client.post(
            "/agent/", json={**configuration(), "name": name}, headers={"X-Correlation-ID": label}
        )
        assert created.status_code == 201, created.text
    assert (await api.http.delete(f"/api-keys/{key['id']}/")).status_code == 204

    record = await _command(stack.kafka, label)
    headers = [(header, value) for header, value in record.headers if header not in CHANGED]
    changed = {"ce_id": new_id(), "ce_subject": new_id(), "ce_expiresat": "2099-01-01T00:00:00.000000Z"}
    headers += [(header, value.encode()) for header, value in changed.items()]
    value = record.value.replace(created.json()["id"].encode(), changed["ce_subject"].encode())
    async with AIOKafkaProducer(**stack.kafka.options()) as producer:
        await producer.send_and_wait(record.topic, value, key=record.key, headers=headers)

    async def dead() -> bool:
        letters = await event_log.read([label], [dead_letter_name(REGISTRY_COMMANDS.name, "registry")])
        return changed["ce_id"] in {letter.id for letter in letters}

    await until(dead, pause=1)
    assert [agent["name"] for agent in (await api.http.get("/agent/")).json()].count(name) == 1


async def _command(kafka: KafkaConnection, label: str) -> "ConsumerRecord[bytes, bytes]":
    """The command of that correlation id, as anybody with the password reads it."""
    async with AIOKafkaConsumer(
        REGISTRY_COMMANDS.name, **kafka.options(), enable_auto_commit=False, auto_offset_reset="earliest"
    ) as consumer:
        while True:
            record = await consumer.getone()
            if ("ce_correlationid", label.encode()) in record.headers:
                return record
