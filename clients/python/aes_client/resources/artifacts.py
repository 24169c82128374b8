"""Artifacts: a session's files, either uploaded or created by its agent."""

from __future__ import annotations

import os

from aes_client import operations
from aes_client.flows import Deadline, Flow, Pause
from aes_client.models import Artifact, ArtifactState
from aes_client.requests import TRANSFER_SECONDS, Content, Request, Upload, content, one, path_of
from aes_client.resource import R, operation
from aes_client.resources.downloads import saved
from aes_client.retries import RetryPolicy

_LOOK_SECONDS = 0.5


class Artifacts(operations.Artifacts[R]):
    """The operations of ``session.artifacts``."""

    def __init__(self, runner: R, policy: RetryPolicy, session_id: str) -> None:
        super().__init__(runner, policy)
        self.session_id = session_id
        self._path = path_of("/sessions/{session_id}/artifacts/", session_id)

    @operation
    def upload(
        self, file: Content, *, name: str | None = None, idempotency_key: str | None = None
    ) -> Request[Artifact]:
        """Uploads a file of up to 50 MiB, given as a path, bytes or an open file."""
        upload = Upload(file, name)
        request = Request("POST", self._path, one(Artifact), upload=upload, timeout=TRANSFER_SECONDS)
        return request.with_key(idempotency_key)

    @operation
    def wait(self, artifact_id: str, *, timeout: float | None = 300) -> Flow[ArtifactState]:
        """Waits until the artifact is ``ready`` or ``failed``, and returns its processing status."""
        deadline = Deadline(timeout)
        while True:
            path = self._path + path_of("{artifact_id}/status/", artifact_id)
            state = yield from self._send(Request("GET", path, one(ArtifactState)))
            if state.processing_status != "pending":
                return state
            deadline.check("Processing the artifact")
            yield Pause(_LOOK_SECONDS)

    @operation
    def save(self, artifact_id: str, path: str | os.PathLike[str]) -> Flow[int]:
        """Downloads an artifact to ``path``, where it appears once it's complete. Returns its size in bytes."""
        place = self._path + path_of("{artifact_id}/download/", artifact_id)
        return saved(Request("GET", place, content), path, self._policy)

    @operation
    def save_all(self, path: str | os.PathLike[str]) -> Flow[int]:
        """Downloads all artifacts of the session as one ZIP archive. Returns the archive's size in bytes."""
        return saved(Request("GET", f"{self._path}download-all/", content), path, self._policy)
