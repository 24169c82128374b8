"""The parts of the installation that operators and companies may see."""

import re
from dataclasses import dataclass
from typing import Final

from libs.contracts.errors import NotFound, PermissionDenied
from libs.contracts.identity import Identity, Scope

_ID: Final = re.compile(r"([a-z-]{1,100})\.(0|[1-9][0-9]{0,17})", re.ASCII)


@dataclass(frozen=True, slots=True)
class OperationsView:
    """The part of the installation that a caller may see: all of it, or the data of one company."""

    company_id: str | None

    @property
    def is_whole(self) -> bool:
        return self.company_id is None

    def shows(self, company_id: str | None) -> bool:
        """Returns whether the view includes data of this company.

        Only operators can see data that belongs to no company, or to several companies.
        """
        return self.company_id is None or company_id == self.company_id


def view_of(reader: Identity) -> OperationsView:
    """Returns what the caller may see. Raises ``PermissionDenied`` unless a scope covers the installation or the
    company.
    """
    if reader.allows(Scope.INSTALLATION_READ):
        return OperationsView(None)
    if reader.reads_company:
        return OperationsView(reader.company_id)
    raise PermissionDenied("The credential needs the scope company:read or installation:read.")


def replay_view_of(writer: Identity) -> OperationsView:
    """Returns which dead-lettered messages the caller can replay, as a view.

    Raises ``PermissionDenied`` if the caller can't replay any message.
    """
    if writer.allows(Scope.INSTALLATION_WRITE):
        return OperationsView(None)
    if writer.allows(Scope.COMPANY_WRITE):
        return OperationsView(writer.company_id)
    raise PermissionDenied("The credential needs the scope company:write or installation:write.")


def letter_id(topic: str, offset: int) -> str:
    return f"{topic}.{offset}"


def parse_letter_id(text: str) -> tuple[str, int]:
    """Parses a dead-lettered message's ID into its topic and offset. Raises ``NotFound`` for an invalid ID."""
    found = _ID.fullmatch(text)
    if found is None:
        raise no_such_letter()
    return found[1], int(found[2])


def no_such_letter() -> NotFound:
    """Returns the error for a missing dead-lettered message.

    The error for another company's message is the same, so that it doesn't reveal whether the message exists.
    """
    return NotFound("There is no dead-lettered message with this ID.")
