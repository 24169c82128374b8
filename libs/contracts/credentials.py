"""Field types for the properties of credentials, such as their scopes and expiry."""

from datetime import UTC
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from libs.contracts.identity import Scope
from libs.contracts.timestamps import parse_time


def _moment(text: str) -> str:
    try:
        parse_time(text).astimezone(UTC)
    except OverflowError:
        raise ValueError("the time is out of range") from None
    return text


def _scope(text: str) -> str:
    return Scope(text).value


Moment = Annotated[
    str,
    AfterValidator(_moment),
    Field(max_length=40, json_schema_extra={"format": "date-time"}, examples=["2031-01-31T00:00:00Z"]),
]
ScopeName = Annotated[str, AfterValidator(_scope), Field(json_schema_extra={"enum": [s.value for s in Scope]})]
SortedScopes = Annotated[list[str], BeforeValidator(sorted)]
