"""Messages about an invalid value are for its author, not in the words of the library that found it."""

import re
from typing import Any, Literal, get_args

import pytest
from pydantic import BaseModel, Field, ValidationError, field_validator
from pydantic_core import PydanticKnownError
from pydantic_core.core_schema import ErrorType

from libs.contracts.errors import validation_message


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
