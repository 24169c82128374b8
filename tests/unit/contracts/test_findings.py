"""Errors about a body are bounded, and texts of errors don't quote the body."""

import json

import pytest
from pydantic import BaseModel, RootModel, ValidationError

from libs.contracts.errors import ValidationFailed
from libs.contracts.findings import invalid
from libs.contracts.models import StrictModel
from libs.contracts.resources.toolsets import CreateToolset, UpdateToolsetBody
from libs.contracts.resources.turns import ExecuteBody


class Size(StrictModel):
    width: int = 0


class Colour(StrictModel):
    width_of_line: int = 0


class Shapes(StrictModel):
    """Fields whose values are objects in every way that a type can say so."""

    one: Size | None = None
    named: RootModel[dict[str, Size]] | None = None
    several: list[Size] = []
    either: Size | Colour | None = None


def findings(body: dict[str, object], model: type[BaseModel] = UpdateToolsetBody) -> ValidationFailed:
    with pytest.raises(ValidationError) as problem:
        model.model_validate(body)
    return invalid(problem.value, body, model)


@pytest.mark.parametrize(
    ("options", "hint"),
    [({"tempreature": 1}, "did you mean 'temperature'?"), ({"colour": "red"}, "remove this field")],
)
def test_a_field_below_another_is_suggested(options: dict[str, object], hint: str) -> None:
    [detail] = findings({"content": "Hello", "options": options}, ExecuteBody).details or ()
    assert (detail.loc[0], detail.hint) == ("options", hint)


@pytest.mark.parametrize(
    ("shapes", "hint"),
    [
        ({"one": {"widht": 1}}, "did you mean 'width'?"),
        ({"named": {"a": {"widht": 1}}}, "remove this field"),
        ({"several": [{"widht": 1}]}, "remove this field"),
        ({"either": {"widht": 1}}, "remove this field"),
    ],
)
def test_a_field_is_suggested_only_where_one_object_is_possible(shapes: dict[str, object], hint: str) -> None:
    assert {detail.hint for detail in findings(shapes, Shapes).details or ()} == {hint}


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
