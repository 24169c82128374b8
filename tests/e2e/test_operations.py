"""Operators through the gateway: health and lag of the running stack, dead letters of companies, their replay."""

from typing import Any

import pytest

from services.gateway.domain.accounts import ALL_SCOPES
from tests.e2e.api import Api, new_client, unique
from tests.e2e.conftest import Caller, make_caller
from tests.e2e.dead_letters import DLQ, put_letter
from tests.e2e.running_stack import RunningStack
from tests.support.waiting import until

EXPECTED = {"gateway": 1, "registry": 1, "runtime": 1, "ingestion": 2, "artifacts": 1, "timeline": 1}
GROUPS = {"timeline-log", "registry-commands", "runtime-commands"}
LETTERS = "/operations/dead-letters/"


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


@pytest.mark.slow(
    covered_by=(
        "integration/gateway/test_operations.py::test_each_company_finds_its_own_letters_page_by_page",
        "e2e/studio/test_operators.py::test_a_letter_is_looked_at_and_replayed",
    )
)
async def test_a_company_replays_its_letter_and_no_other_company_sees_it(
    api: Api, stack: RunningStack, own_company: str, mallory: Caller
) -> None:
    carol = make_caller(stack, own_company, "carol", ALL_SCOPES)
    label = unique("letter")
    letter = await put_letter(stack.kafka, carol.company_id, label, reason="ValueError('aes_" + "k" * 43 + "')")
    path = f"{LETTERS}{letter}/"
    async with new_client(stack.base_url, mallory.secret) as stranger:
        assert label not in (await stranger.get(LETTERS)).text
        assert (await stranger.get(path)).status_code == 404
        assert (await stranger.post(f"{path}replay/")).status_code == 404
        assert (await stranger.get("/operations/consumers/")).status_code == 403

    async with new_client(stack.base_url, carol.secret) as client:
        [shown] = (await client.get(LETTERS, params={"correlation_id": label})).json()["dead_letters"]
        assert (shown["id"], shown["cause"]) == (letter, {"code": "ValueError", "message": "(not shown)"})
        assert "signed-identity" not in (await client.get(path)).text
        first, second = [await client.post(f"{path}replay/") for _ in range(2)]
        assert [each.json()["repeated"] for each in (first, second)] == [False, True], first.text

        async def in_the_timeline() -> list[str]:
            events = (await client.get("/events/", params={"correlation_id": label})).json()["events"]
            return [event["type"] for event in events]

        assert await until(in_the_timeline) == ["agent.deleted"]
    assert stack.aes("dlq", "show", DLQ, letter.rpartition(".")[2])["replayed"] is True
    [listed] = (await api.http.get(LETTERS, params={"correlation_id": label})).json()["dead_letters"]
    assert (listed["replayed"], listed["company_id"]) == (True, carol.company_id)
