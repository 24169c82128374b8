"""Retention settings: how long a company's sessions are kept."""

from typing import Annotated, Any, ClassVar, Final

from pydantic import BaseModel, Field

from libs.contracts.messages import Command, Event
from libs.contracts.models import StrictModel

EXAMPLE_ENVELOPE: Final = {"owner_id": None, "subject": "company_id"}

MOST_DAYS: Final = 36_500
Days = Annotated[int, Field(ge=1, le=MOST_DAYS)]


class Retention(BaseModel):
    """A company's session retention period.

    Sessions are deleted after ``session_retention_days`` without a turn; ``null`` keeps them forever. The value is
    the company's setting, or the installation's default (``default_session_retention_days``).
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "a quarter": {"session_retention_days": 90, "default_session_retention_days": None}
    }

    session_retention_days: int | None
    default_session_retention_days: int | None


class SetRetentionBody(StrictModel):
    """The body of ``PUT /retention/``. Send ``null`` to restore the installation's default."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "a quarter": {"session_retention_days": 90},
        "the default": {"session_retention_days": None},
    }

    session_retention_days: Days | None


class RetentionUpdated(Event, type="aes.runtime.retention.updated.v1"):
    """A company's session retention period was changed. The event's subject is the company.

    Sessions that are now too old are deleted within hours.
    """

    retention: Retention


class SetRetention(Command, type="aes.runtime.set_retention.v1", outcomes=(RetentionUpdated,)):
    """Set the session retention period of the caller's company."""

    EXAMPLES: ClassVar[dict[str, Any]] = SetRetentionBody.EXAMPLES

    session_retention_days: Days | None
