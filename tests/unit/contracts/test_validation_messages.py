"""Messages about an invalid value are for its author, not in the words of the library that found it."""

from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field, ValidationError, field_validator

from libs.contracts.errors import validation_message


class Inner(BaseModel):
    a: int = 0


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
        ({"nedeed": 1}, "there is no such field"),
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
