"""Field types for the properties of credentials, such as their scopes and expiry."""

from datetime import UTC
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from libs.contracts.findings import did_you_mean
from libs.contracts.identity import Scope
from libs.contracts.timestamps import parse_time

_SCOPES = [scope.value for scope in Scope]


def _moment(text: str) -> str:
    try:
        parse_time(text).astimezone(UTC)
    except OverflowError:
        raise ValueError("the time is out of range") from None
    return text


def _scope(text: str) -> str:
    if text not in _SCOPES:
        hint = did_you_mean(text, _SCOPES) or "see docs/reference/access.md"
        raise PydanticCustomError("value_error", "unknown scope", {"hint": hint})
    return text


Moment = Annotated[
    str,
    AfterValidator(_moment),
    Field(max_length=40, json_schema_extra={"format": "date-time"}, examples=["2031-01-31T00:00:00Z"]),
]
ScopeName = Annotated[str, AfterValidator(_scope), Field(json_schema_extra={"enum": _SCOPES})]
SortedScopes = Annotated[list[str], BeforeValidator(sorted)]
