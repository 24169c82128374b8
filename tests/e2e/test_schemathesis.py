"""The running service against its own OpenAPI document, with generated requests."""

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
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
from tests.e2e.running_stack import RunningStack

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
    max_examples=10,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
    print_blob=False,
)


@pytest.fixture(scope="module")
def document(stack: RunningStack) -> Any:
    return schemathesis.openapi.from_url(f"{stack.base_url}/api/v1/openapi.json")


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["good data", "bad data"])
def test_every_operation_does_what_the_document_says(document: Any, stack: RunningStack, mode: GenerationMode) -> None:
    problems = []
    operations = [found.ok() for found in document.get_all_operations()]
    assert len(operations) > 20
    for operation in operations:
        try:
            _try(operation, mode, stack.api_key)
        except Exception as problem:
            problems.append(f"{operation.label}: {problem!r}")
    assert not problems, "\n\n".join(problems)


def _try(operation: Any, mode: GenerationMode, key: str) -> None:
    @EXAMPLES
    @given(case=operation.as_strategy(generation_mode=mode))
    def check(case: schemathesis.Case) -> None:
        case.call_and_validate(headers={"x-api-key": key}, checks=CHECKS, timeout=60)

    check()
