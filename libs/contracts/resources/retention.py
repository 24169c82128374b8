"""Retention: how long a company keeps what its users made."""

from typing import Annotated, Any, ClassVar, Final

from pydantic import BaseModel, Field

from libs.contracts.messages import Command, Event
from libs.contracts.models import StrictModel

MOST_DAYS: Final = 36_500
Days = Annotated[int, Field(ge=1, le=MOST_DAYS)]


class Retention(BaseModel):
    """Sessions without a turn for ``session_retention_days`` are deleted, with null none.

    It is the company's own number, else ``default_session_retention_days``, that of the installation.
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "a quarter": {"session_retention_days": 90, "default_session_retention_days": None}
    }

    session_retention_days: int | None
    default_session_retention_days: int | None


class SetRetentionBody(StrictModel):
    """``PUT /retention/``; with null the installation's default holds."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "a quarter": {"session_retention_days": 90},
        "the default": {"session_retention_days": None},
    }

    session_retention_days: Days | None


class RetentionUpdated(Event, type="aes.runtime.retention.updated.v1"):
    """Its subject is the company. The first sessions that are too old go within an hour."""

    retention: Retention


class SetRetention(Command, type="aes.runtime.set_retention.v1", outcomes=(RetentionUpdated,)):
    """Sets the retention of the caller's company."""

    EXAMPLES: ClassVar[dict[str, Any]] = SetRetentionBody.EXAMPLES

    session_retention_days: Days | None
