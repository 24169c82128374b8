"""Operators see the running stack: through the gateway, and by `aes doctor` and `aes dlq`."""

from typing import Any

import pytest

from tests.e2e.api import Api
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
