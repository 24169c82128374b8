"""`aes doctor` and `aes dlq` find the embedded stack by themselves."""

import pytest

from tests.e2e.running_stack import RunningStack


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
