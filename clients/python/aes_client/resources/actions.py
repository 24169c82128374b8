"""Actions: what turns are waiting for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aes_client.flows import Emitting
from aes_client.models import ActionKind, OpenAction, Turn
from aes_client.requests import Request, given, one, path_of
from aes_client.resource import R, Resource, iteration, operation

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from aes_client import params


class Actions(Resource[R]):
    """``client.actions``."""

    @iteration
    def list(self, *, kind: ActionKind | None = None, session_id: str | None = None) -> Emitting[OpenAction]:
        """Yields the open actions of the sessions that the caller may see, oldest first."""
        yield from self._pages("/actions/", "actions", OpenAction, given(kind=kind, session_id=session_id))

    @operation
    def resolve(self, action: OpenAction, **answer: Unpack[params.ResolveActionBody]) -> Request[Turn]:
        """Answers an action: ``decision=…``, ``output=…`` or ``error=…``."""
        path = path_of(
            "/runtime/{session}/turns/{turn}/actions/{action}/",
            session=action.session_id,
            turn=action.turn_id,
            action=action.action_id,
        )
        return Request("POST", path, one(Turn), body=dict(answer))
