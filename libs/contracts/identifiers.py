"""IDs of entities. They're opaque to callers, and sort by creation time so that database indexes stay compact."""

import re
from datetime import UTC, datetime
from typing import Final

from uuid_utils import uuid7

from libs.contracts.errors import NotFound

CORRELATION_ID_PATTERN: Final = r"^[A-Za-z0-9._:-]{1,128}$"
_CORRELATION_ID: Final = re.compile(CORRELATION_ID_PATTERN)
_LONGEST_AGENT_KEY: Final = 300
_AGENT_KEY: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_VERSION: Final = 14
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def new_id() -> str:
    """Returns a new UUIDv7 as a string."""
    return str(uuid7())


def is_id(value: str) -> bool:
    """Returns whether the text has the format of an ID."""
    return _UUID.fullmatch(value) is not None


def id_of(value: str, thing: str) -> str:
    """Returns the text if it has the format of an ID. Raises ``NotFound`` if it doesn't."""
    if not is_id(value):
        raise NotFound(f"There is no {thing} with this ID.")
    return value


def creation_time(value: str) -> datetime | None:
    """Returns the time at which an ID was created, or None if the ID contains no timestamp."""
    if not is_id(value) or value[_VERSION] != "7":
        return None
    try:
        return datetime.fromtimestamp(int(value[:8] + value[9:13], 16) / 1000, UTC)
    except (ValueError, OverflowError):
        return None


def is_agent_key(value: str) -> bool:
    """Returns whether the text has the format of an agent key: lower-case ASCII words joined by hyphens."""
    return len(value) <= _LONGEST_AGENT_KEY and _AGENT_KEY.fullmatch(value) is not None


def is_correlation_id(value: str) -> bool:
    """Returns whether the text consists of 1 to 128 characters of ``A-Za-z0-9._:-``."""
    return _CORRELATION_ID.fullmatch(value) is not None
