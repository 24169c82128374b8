"""Retention: how long a company keeps what its users made."""

from typing import Annotated, Final

from pydantic import BaseModel, Field

from libs.contracts.api.agents import StrictModel

MOST_DAYS: Final = 36_500
Days = Annotated[int, Field(ge=1, le=MOST_DAYS)]


class Retention(BaseModel):
    """Sessions without a turn for ``session_retention_days`` are deleted, with null none.

    It is the company's own number, else ``default_session_retention_days``, that of the installation.
    """

    session_retention_days: int | None
    default_session_retention_days: int | None


class SetRetentionBody(StrictModel):
    """``PUT /retention/``; with null the installation's default holds."""

    session_retention_days: Days | None
