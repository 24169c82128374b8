"""Timestamps in messages and bodies: UTC with six fractional digits, so that they sort as strings."""

from datetime import UTC, datetime
from typing import Annotated

from pydantic import BeforeValidator, WithJsonSchema


def format_time(moment: datetime) -> str:
    """Formats an aware datetime as ``YYYY-MM-DDTHH:MM:SS.ffffffZ``."""
    # Every message has several timestamps, and strftime would take twice as long.
    return moment.astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def parse_time(text: str) -> datetime:
    """Parses a timestamp to an aware datetime. Raises ``ValueError`` if it's invalid or has no time zone."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("a timestamp needs a time zone")
    return moment


def now_text() -> str:
    return format_time(datetime.now(UTC))


def _as_text(value: object) -> object:
    return format_time(value) if isinstance(value, datetime) else value


Timestamp = Annotated[str, BeforeValidator(_as_text), WithJsonSchema({"type": "string", "format": "date-time"})]
"""The type of a timestamp field in a model, which accepts text or an aware datetime."""
