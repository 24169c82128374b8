"""Errors about a body are bounded, and texts of errors don't quote the body."""

import json

import pytest
from pydantic import ValidationError

from libs.contracts.errors import ValidationFailed
from libs.contracts.findings import invalid
from libs.contracts.resources.toolsets import CreateToolset, UpdateToolsetBody


def findings(body: dict[str, object]) -> ValidationFailed:
    with pytest.raises(ValidationError) as problem:
        UpdateToolsetBody.model_validate(body)
    return invalid(problem.value, body, UpdateToolsetBody)


def test_a_report_has_few_errors_and_short_names() -> None:
    many = findings({f"unknown-{number}": 1 for number in range(5_000)})
    long = findings({"tool_settings": {"n" * 100_000: {f"unknown-{number}": 1 for number in range(100)}}})

    assert len(many.details or ()) == len(long.details or ()) == 50
    assert len(long.info().model_dump_json()) < 50_000


def test_the_text_of_an_error_does_not_quote_a_command() -> None:
    toolset = {"type": "mcp", "name": "tickets", "url": "https://a.example", "headers": {"X-Key": "secret\n"}}

    with pytest.raises(ValidationError) as problem:
        CreateToolset.decode(json.dumps({"toolset": toolset}).encode())

    assert "X-Key" in str(problem.value)
    assert "secret" not in str(problem.value)
