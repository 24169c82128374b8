"""Timestamps on the wire: UTC with always six fractional digits, so that they sort as strings."""

from datetime import UTC, datetime
from typing import Annotated

from pydantic import BeforeValidator


def format_time(moment: datetime) -> str:
    """``YYYY-MM-DDTHH:MM:SS.ffffffZ`` of an aware datetime."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_time(text: str) -> datetime:
    """The aware datetime of a wire timestamp; raises ``ValueError`` on any other text."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("a timestamp needs a time zone")
    return moment


def now_text() -> str:
    """The current time in wire form."""
    return format_time(datetime.now(UTC))


def _as_text(value: object) -> object:
    return format_time(value) if isinstance(value, datetime) else value


Timestamp = Annotated[str, BeforeValidator(_as_text)]
"""A wire timestamp in a model; also takes an aware datetime."""
