"""The parts of the installation that operators and companies may see."""

import re
from dataclasses import dataclass
from typing import Final

from libs.contracts.errors import NotFound, PermissionDenied
from libs.contracts.identity import Identity, Scope

_ID: Final = re.compile(r"([a-z-]{1,100})\.(0|[1-9][0-9]{0,17})", re.ASCII)


@dataclass(frozen=True, slots=True)
class OperationsView:
    """The data that a caller may see: one company's or, without a ``company_id``, the whole installation's."""

    company_id: str | None

    @property
    def is_whole(self) -> bool:
        return self.company_id is None

    def shows(self, company_id: str | None) -> bool:
        """Returns whether the caller may see a company's data. None stands for data of no company, or of several."""
        return self.company_id is None or company_id == self.company_id


def view_of(reader: Identity) -> OperationsView:
    """Returns what the caller may see. Raises ``PermissionDenied`` for a caller that may see only its own data."""
    if reader.allows(Scope.INSTALLATION_READ):
        return OperationsView(None)
    if reader.reads_company:
        return OperationsView(reader.company_id)
    raise PermissionDenied("The credential needs the scope company:read or installation:read.")


def replay_view_of(writer: Identity) -> OperationsView:
    """Returns which messages the caller may replay. Raises ``PermissionDenied`` if replaying isn't allowed."""
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
    """Returns the error for an unknown message. Another company's message counts as unknown."""
    return NotFound("There is no dead-lettered message with this ID.")
