"""Errors about a body are bounded."""

import pytest
from pydantic import ValidationError

from libs.contracts.errors import ValidationFailed
from libs.contracts.findings import invalid
from libs.contracts.resources.toolsets import UpdateToolsetBody


def findings(body: dict[str, object]) -> ValidationFailed:
    with pytest.raises(ValidationError) as problem:
        UpdateToolsetBody.model_validate(body)
    return invalid(problem.value, body, UpdateToolsetBody)


def test_a_report_has_few_errors_and_short_names() -> None:
    many = findings({f"unknown-{number}": 1 for number in range(5_000)})
    long = findings({"tool_settings": {"n" * 100_000: {f"unknown-{number}": 1 for number in range(100)}}})

    assert len(many.details or ()) == len(long.details or ()) == 50
    assert len(long.info().model_dump_json()) < 50_000
