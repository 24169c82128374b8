"""Errors about a body: bounded, in the words of its author, and without quoting the body."""

import json
import re
from typing import Any, Literal, get_args

import pytest
from pydantic import BaseModel, Field, RootModel, ValidationError, field_validator
from pydantic_core import PydanticKnownError
from pydantic_core.core_schema import ErrorType

from libs.contracts.errors import ValidationFailed, validation_message
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


class Inner(BaseModel):
    a: int = 0


class Note(BaseModel):
    type: Literal["note"]


class Link(BaseModel):
    type: Literal["link"]


class Body(BaseModel, extra="forbid", strict=True):
    needed: str
    number: int = Field(0, ge=1)
    share: float = 0.0
    flag: bool = False
    kind: Literal["a", "b"] = "a"
    names: list[str] = Field([], max_length=1)
    values: dict[str, int] = {}
    inner: Inner = Inner()
    text: str = Field("x", min_length=1, pattern="^x*$")
    own: str = ""
    part: Note | Link | None = Field(None, discriminator="type")

    @field_validator("own")
    @classmethod
    def _check(cls, value: str) -> str:
        if value:
            raise ValueError("AES_OWN isn't taken" if value == "variable" else "Isn't taken")
        return value


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "is required"),
        ({"nedeed": 1}, "isn't a known field"),
        ({"number": "1"}, "must be a whole number"),
        ({"number": 0}, "must be greater than or equal to 1"),
        ({"share": "1"}, "must be a number"),
        ({"flag": 1}, "must be true or false"),
        ({"kind": "c"}, "must be 'a' or 'b'"),
        ({"names": "a"}, "must be a list"),
        ({"names": ["a", "b"]}, "must have at most 1 item, not 2"),
        ({"values": []}, "must be an object"),
        ({"inner": []}, "must be an object"),
        ({"text": 1}, "must be text"),
        ({"text": ""}, "must have at least 1 character"),
        ({"text": "y"}, "must match pattern '^x*$'"),
        ({"part": {}}, "needs the field 'type'"),
        ({"part": {"type": "x"}}, "must have one of these values for 'type': 'note', 'link'"),
        ({"own": "value"}, "isn't taken"),
        ({"own": "variable"}, "AES_OWN isn't taken"),
    ],
    ids=str,
)
def test_a_finding_says_what_the_value_must_be(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Body.model_validate({"needed": "", **given} if given else given)
    [found] = caught.value.errors()
    assert validation_message(found) == message


# Of values that only a program can give, such as instances of classes and arguments of functions.
OF_PROGRAMS = re.compile(
    r"arguments?_|_argument|argument_|attribute|bytes|callable|complex|counter|dataclass|default_factory|deque|ellipsis"
    r"|fraction|frozen_(?!set)|generator|is_(instance|subclass)|iteration|missing_sentinel|named_tuple|needs_python"
    r"|object_invalid|ordered_dict|recursion|set_item|time_delta|uuid_version|assertion|^time_"
    r"|datetime_inexact|timezone_offset"
)
LIBRARY = re.compile(
    r"input|should|valid (string|integer|boolean|dictionary)|tuple|dict|unable|Decimal|None|tag\b|parse"
)
CONTEXT = {
    "gt": 1, "ge": 1, "lt": 1, "le": 1, "multiple_of": 2, "min_length": 1, "max_length": 5, "actual_length": 6,
    "field_type": "List", "pattern": "^a$", "expected": "'a' or 'b'", "error": "it is wrong", "max_digits": 3,
    "decimal_places": 2, "whole_digits": 3, "expected_schemes": "'http'", "discriminator": "'type'", "tag": "x",
    "expected_tags": "'a', 'b'", "class_name": "Body",
}  # fmt: skip


@pytest.mark.parametrize("kind", [kind for kind in get_args(ErrorType) if not OF_PROGRAMS.search(kind)])
def test_no_finding_has_the_words_of_the_library(kind: ErrorType) -> None:
    found = PydanticKnownError(kind, CONTEXT)

    message = validation_message({"type": kind, "msg": found.message(), "ctx": CONTEXT})

    assert not LIBRARY.search(message)
