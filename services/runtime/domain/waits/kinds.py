"""Lists the kinds of waits that the contracts define."""

from collections.abc import Mapping
from typing import Final

from libs.contracts.resources.turns import ActionKind
from services.runtime.domain.tools import ToolDefinition
from services.runtime.domain.waits import WaitKind
from services.runtime.domain.waits.approval import ApprovalWait
from services.runtime.domain.waits.tool_result import ToolResultWait

KINDS: Final[Mapping[ActionKind, WaitKind]] = {kind.name: kind for kind in (ApprovalWait(), ToolResultWait())}


def wait_for(definition: ToolDefinition) -> WaitKind | None:
    """Returns the kind of wait that calls to the tool need, or None if the service calls the tool immediately."""
    return next((kind for kind in KINDS.values() if kind.holds_up(definition)), None)
