"""Actions: approvals and tool results that turns are waiting for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aes_client import operations
from aes_client.models import OpenAction, Turn
from aes_client.requests import Request, one, path_of
from aes_client.resource import R, operation

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from aes_client.models import ResolveActionBody


class Actions(operations.Actions[R]):
    """The operations of ``client.actions``."""

    @operation
    def resolve(
        self, action: OpenAction, *, idempotency_key: str | None = None, **answer: Unpack[ResolveActionBody]
    ) -> Request[Turn]:
        """Resolves an action with ``decision=…``, ``output=…`` or ``error=…``, and returns its turn."""
        template = "/runtime/{session_id}/turns/{turn_id}/actions/{action_id}/"
        path = path_of(template, action.session_id, action.turn_id, action.action_id)
        return Request("POST", path, one(Turn), body=dict(answer)).with_key(idempotency_key)
