"""Artifacts: a session's files, either uploaded or created by its agent."""

from __future__ import annotations

from aes_client import operations
from aes_client.flows import Deadline, Flow, Pause
from aes_client.models import ArtifactState
from aes_client.resource import R, operation

_LOOK_SECONDS = 0.5


class Artifacts(operations.Artifacts[R]):
    """The operations of ``session.artifacts``."""

    @operation
    def wait(self, artifact_id: str, *, timeout: float | None = 300) -> Flow[ArtifactState]:
        """Waits until the artifact is ``ready`` or ``failed``, and returns its processing status."""
        deadline = Deadline(timeout)
        while True:
            state = yield from self._send(Artifacts.status.request(self, artifact_id))
            if state.processing_status != "pending":
                return state
            deadline.check("Processing the artifact")
            yield Pause(_LOOK_SECONDS)
