"""The installation as operators and companies may see it."""

import re
from dataclasses import dataclass
from typing import Final

from libs.contracts.errors import NotFound, PermissionDenied
from libs.contracts.identity import Identity, Scope

_ID: Final = re.compile(r"([a-z-]{1,100})\.(0|[1-9][0-9]{0,17})", re.ASCII)


@dataclass(frozen=True, slots=True)
class OperationsView:
    """A caller's view: everything, or one company's part."""

    company_id: str | None

    @property
    def is_whole(self) -> bool:
        return self.company_id is None

    def shows(self, company_id: str | None) -> bool:
        """Whether the view includes data of that company; data of none or several is for operators only."""
        return self.company_id is None or company_id == self.company_id


def view_of(reader: Identity) -> OperationsView:
    """Raises ``PermissionDenied`` for a key that sees neither the installation nor its whole company."""
    if reader.allows(Scope.INSTALLATION_READ):
        return OperationsView(None)
    if reader.reads_company:
        return OperationsView(reader.company_id)
    raise PermissionDenied("The credential lacks the scope company:read, or installation:read.")


def replay_view_of(writer: Identity) -> OperationsView:
    """The view on the dead letters that the caller may replay. Raises ``PermissionDenied`` if there are none."""
    if writer.allows(Scope.INSTALLATION_WRITE):
        return OperationsView(None)
    if writer.allows(Scope.COMPANY_WRITE):
        return OperationsView(writer.company_id)
    raise PermissionDenied("The credential lacks the scope company:write, or installation:write.")


def letter_id(topic: str, offset: int) -> str:
    return f"{topic}.{offset}"


def parse_letter_id(text: str) -> tuple[str, int]:
    """Topic and offset of a dead letter. Raises ``NotFound``."""
    found = _ID.fullmatch(text)
    if found is None:
        raise no_such_letter()
    return found[1], int(found[2])


def no_such_letter() -> NotFound:
    """The same error for another company's dead letter and for a missing one."""
    return NotFound("There is no dead letter with this ID.")
