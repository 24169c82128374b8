"""The running service against its own OpenAPI document, with generated requests."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, assume, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    ignored_auth,
    missing_required_header,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from tests.e2e.api import configuration
from tests.e2e.running_stack import RunningStack

pytestmark = [
    pytest.mark.slow(
        covered_by=(
            "unit/gateway/test_every_operation.py::test_it_names_the_field_that_is_wrong",
            "unit/gateway/test_protocol_bodies.py::test_what_is_no_body_is_refused_in_the_protocols_own_shape",
        )
    ),
    # Generating bad data is work for minutes; on a busy machine that is longer than the limit that ends what hangs.
    pytest.mark.timeout(3000),
]
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
    unsupported_method,
    ignored_auth,
    missing_required_header,
]
EXAMPLES = settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
    print_blob=False,
)


@pytest.fixture(scope="module")
def document(stack: RunningStack) -> Any:
    # A body may be too large before it is anything else.
    refusals = {"negative_data_rejection": {"expected-statuses": ["400", "401", "404", "405", "413", "415", "422"]}}
    config = schemathesis.Config.from_dict({"checks": refusals})
    return schemathesis.openapi.from_url(f"{stack.base_url}/api/v1/openapi.json", config=config)


GOOD, BAD = GenerationMode.POSITIVE, GenerationMode.NEGATIVE


@pytest.fixture(autouse=True)
def no_budgets_left(stack: RunningStack) -> Iterator[None]:
    """Removes the budgets that generated requests have made: they would end the turns of all other tests."""
    yield
    with httpx.Client(
        base_url=f"{stack.base_url}/api/v1", headers={"x-api-key": stack.api_key}, timeout=60, trust_env=False
    ) as client:
        while budgets := client.get("/budgets/").raise_for_status().json()["budgets"]:
            for budget in budgets:
                client.delete(f"/budgets/{budget['id']}/").raise_for_status()


@pytest.mark.parametrize(
    ("mode", "on_what_exists"),
    [
        pytest.param(BAD, False, id="bad data"),
        pytest.param(GOOD, True, id="good data on what exists"),
    ],
)
def test_every_operation_does_what_the_document_says(
    document: Any, stack: RunningStack, mode: GenerationMode, on_what_exists: bool
) -> None:
    problems = []
    operations = [found.ok() for found in document.get_all_operations()]
    assert len(operations) > 20
    with httpx.Client(
        base_url=f"{stack.base_url}/api/v1", headers={"x-api-key": stack.api_key}, timeout=60, trust_env=False
    ) as client:
        for operation in operations:
            known = _made_for(operation, client) if on_what_exists else {}
            if on_what_exists and not known:
                continue
            try:
                _try(operation, mode, stack.api_key, known)
            except Exception as problem:
                problems.append(f"{operation.label}: {problem!r}")
    assert not problems, "\n\n".join(problems)


def test_no_case_that_the_document_describes_is_a_surprise(stack: RunningStack, tmp_path: Path) -> None:
    """The examples, and every boundary and violation of the schemas."""
    program = shutil.which("schemathesis", path=str(Path(sys.executable).parent))
    assert program is not None
    arguments = [
        *("run", f"{stack.base_url}/api/v1/openapi.json", "--header", f"x-api-key: {stack.api_key}", "--no-color"),
        *("--phases", "examples,coverage", "--request-timeout", "60", "--seed", "1"),
        # One idempotency key with two bodies is refused, by design: that is a valid request by schema alone.
        *("--exclude-checks", "positive_data_acceptance", "--suppress-health-check", "all"),
    ]
    run = subprocess.run([program, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=800, check=False)
    assert run.returncode == 0, run.stdout[-8000:]


def _try(operation: Any, mode: GenerationMode, key: str, known: dict[str, str]) -> None:
    @EXAMPLES
    @given(case=operation.as_strategy(generation_mode=mode))
    def check(case: schemathesis.Case) -> None:
        # Unknown parameters of a query are ignored on purpose.
        assume(set(case.query or {}) <= {"limit", "offset"})
        if known:
            case.path_parameters.update(known)
        case.call_and_validate(headers={"x-api-key": key}, checks=CHECKS, timeout=60)

    check()


def _made_for(operation: Any, client: httpx.Client) -> dict[str, str]:
    """Values of the path's parameters that stand for something, made just now."""
    if "{session_id}" in operation.path:
        session = client.post("/sessions/", json=configuration()).json()["session_id"]
        turn = client.post(f"/runtime/{session}/execute/", json={"content": "hello"}).json()["turn_id"]
        return {"session_id": session, "turn_id": turn}
    if "/agent/{id}" in operation.path:
        agent = client.post("/agent/", json=configuration()).json()
        return {"id": agent["id"], "version": agent["version_number"]}
    if "/api-keys/{id}" in operation.path:
        return {"id": client.post("/api-keys/", json={"name": "generated"}).json()["id"]}
    return {}
