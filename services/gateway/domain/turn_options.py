"""Options of a turn: what of them a caller may say, beyond their form."""

from libs.contracts.api.sessions import TurnOptions
from libs.contracts.errors import PermissionDenied
from services.gateway.domain.accounts import Principal


def check_options(options: TurnOptions | None, caller: Principal) -> None:
    """Raises ``PermissionDenied``: the owner of an agent decides how it answers visitors, and what that may cost."""
    if options is not None and caller.public is not None:
        raise PermissionDenied("A public key executes with the agent's own settings: options are not for visitors.")
