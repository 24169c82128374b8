"""Models of queries and headers, which are parsed as strictly as bodies."""

import re
from collections.abc import Sequence
from typing import Annotated, Any, Final
from urllib.parse import parse_qsl

from fastapi import Header, Query
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator
from pydantic.json_schema import SkipJsonSchema

from libs.contracts.errors import ErrorDetail, ValidationFailed, invalid_cursor
from libs.contracts.findings import did_you_mean

MAX_LIMIT: Final = 200
DEFAULT_LIMIT: Final = 50
MAX_OFFSET: Final = 2**31 - 1
MAX_CURSOR: Final = 1_000
PUBLIC_KEYS: Final = ("agent_key", "connection_key")
_DIGITS: Final = re.compile(r"[0-9]{1,10}", re.ASCII)

_IDEMPOTENCY: Final = "A unique string. Retries with the same key and body return the original result."
_LAST_EVENT_ID: Final = "Resumes a stream after the event with this `id`. SSE clients send it automatically."
_PREFER: Final = "`wait=N`: wait up to N seconds for the reply. `respond-async`: respond immediately."


class QueryModel(BaseModel):
    """The base class of queries. Rejects unknown parameters, because a misspelled filter would return everything.

    Validators raise ``ValidationFailed`` directly, so that the first error keeps its message.
    """

    model_config = ConfigDict(frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _without_others(cls, given: dict[str, Any]) -> dict[str, Any]:
        known = [field.alias or name for name, field in cls.model_fields.items()]
        for name in given:
            if name not in known and name not in PUBLIC_KEYS:
                raise _unknown_parameter(name, known)
        return given

    def params(self) -> dict[str, Any]:
        """Returns the parameters to forward, including defaults."""
        return self.model_dump(by_alias=True, exclude_none=True)


def whole_number(name: str, low: int, high: int, example: int) -> BeforeValidator:
    """Returns a validator for a whole number in ASCII digits, without a sign or spaces."""

    def read(value: object) -> object:
        # Defaults are numbers already.
        return read_whole_number(name, value, low, high, example) if isinstance(value, str) else value

    return BeforeValidator(read)


def read_whole_number(name: str, text: str, low: int, high: int, example: int) -> int:
    """Raises ``ValidationFailed`` for an invalid number, or for one that is out of range."""
    if _DIGITS.fullmatch(text) and low <= int(text) <= high:
        return int(text)
    message = f"must be a whole number from {low} to {high}"
    raise refused_parameter(name, message, f"{name}={example}", kind="int_range")


def refused_parameter(name: str, message: str, hint: str, *, kind: str = "invalid") -> ValidationFailed:
    detail = ErrorDetail(loc=["query", name], type=kind, message=message, hint=hint)
    return ValidationFailed(f"Invalid query: {name} {message}.", details=[detail])


def query_values(query: bytes) -> dict[str, str]:
    """Parses a query without a model. If a parameter is repeated, its last value counts."""
    return dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True)) if query else {}


def _unknown_parameter(name: str, known: Sequence[str]) -> ValidationFailed:
    shown, message = name[:100], "unknown parameter"
    hint = did_you_mean(shown, known) or f"known parameters: {', '.join(known) or 'none'}"
    detail = ErrorDetail(loc=["query", shown], type="extra_forbidden", message=message, hint=hint)
    return ValidationFailed(f"Invalid query: {shown}: {message}.", details=[detail])


def _storable(text: str) -> str:
    # No stored value contains NUL, and PostgreSQL would reject the whole statement.
    return text.replace("\0", "\ufffd")


def _cursor(text: str) -> str:
    if not 0 < len(text) <= MAX_CURSOR:
        raise invalid_cursor()
    return text


Text = Annotated[str, AfterValidator(_storable)]
OptionalText = Text | SkipJsonSchema[None]
Limit = Annotated[int, Field(ge=1, le=MAX_LIMIT), whole_number("limit", 1, MAX_LIMIT, DEFAULT_LIMIT)]
Offset = Annotated[
    int,
    Field(ge=0, le=MAX_OFFSET, description="The number of items to skip."),
    whole_number("offset", 0, MAX_OFFSET, 0),
]
_Cursor = Annotated[str, AfterValidator(_cursor), WithJsonSchema({"type": "string", "maxLength": MAX_CURSOR})]


class ShortPageQuery(QueryModel):
    """The query for a page of a short list, which doesn't need a cursor."""

    limit: Limit = Field(DEFAULT_LIMIT, description="The maximum number of items per page.")
    offset: Offset = 0


class PageQuery(ShortPageQuery):
    after: _Cursor | SkipJsonSchema[None] = Field(
        None, serialization_alias="cursor", description="The previous page's `next`."
    )


class ArrayQuery(QueryModel):
    """The query for a list that is returned as an array. Without ``limit``, the whole list is returned."""

    limit: Limit | SkipJsonSchema[None] = Field(None, description="The maximum number of items. Defaults to all items.")
    offset: Offset = 0


class NoQuery(QueryModel):
    """The query for a list without pages."""


Page = Annotated[PageQuery, Query()]
ShortPage = Annotated[ShortPageQuery, Query()]
ArrayPage = Annotated[ArrayQuery, Query()]
Unfiltered = Annotated[NoQuery, Query()]

_OptionalHeader = str | SkipJsonSchema[None]
IdempotencyKey = Annotated[
    _OptionalHeader,
    Header(alias="Idempotency-Key", description=_IDEMPOTENCY, json_schema_extra={"pattern": "^[ -~]{1,200}$"}),
]
LastEventId = Annotated[_OptionalHeader, Header(alias="Last-Event-ID", description=_LAST_EVENT_ID)]
Prefer = Annotated[_OptionalHeader, Header(alias="Prefer", description=_PREFER, examples=["wait=30", "respond-async"])]
