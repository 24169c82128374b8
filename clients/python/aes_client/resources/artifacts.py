"""Artifacts: files of a session, uploaded into it or made by its agent."""

from __future__ import annotations

import os

from aes_client.flows import Deadline, Emitting, Flow, Pause
from aes_client.models import Artifact, ArtifactPreview, ArtifactState, ArtifactUrl, PlatformCopy
from aes_client.requests import Content, Request, Upload, content, one, path_of
from aes_client.resource import R, Resource, iteration, operation
from aes_client.resources.downloads import TRANSFER_SECONDS, saved
from aes_client.retries import RetryPolicy

_LOOK_SECONDS = 0.5


class Artifacts(Resource[R]):
    """``session.artifacts``."""

    def __init__(self, runner: R, policy: RetryPolicy, session_id: str) -> None:
        super().__init__(runner, policy)
        self._path = path_of("/sessions/{session}/artifacts/", session=session_id)

    @operation
    def upload(self, file: Content, *, name: str | None = None) -> Request[Artifact]:
        """Uploads a file, given by its path, its bytes, or open, of at most 50 MB."""
        upload = Upload(file, name)
        return Request("POST", self._path, one(Artifact), upload=upload, timeout=TRANSFER_SECONDS)

    @iteration
    def list(self) -> Emitting[Artifact]:
        """Yields artifacts, newest first."""
        yield from self._pages(self._path, "artifacts", Artifact, {})

    @operation
    def get(self, artifact_id: str) -> Request[Artifact]:
        return Request("GET", path_of("/artifacts/{artifact}/", artifact=artifact_id), one(Artifact))

    @operation
    def status(self, artifact_id: str) -> Request[ArtifactState]:
        return Request("GET", self._of(artifact_id, "status"), one(ArtifactState))

    @operation
    def wait(self, artifact_id: str, *, timeout: float | None = 300) -> Flow[ArtifactState]:
        """Returns the state once the artifact is ``ready`` or ``failed``."""
        deadline = Deadline(timeout)
        while True:
            state = yield from self._send(Request("GET", self._of(artifact_id, "status"), one(ArtifactState)))
            if state.processing_status != "pending":
                return state
            deadline.check("Processing the artifact")
            yield Pause(_LOOK_SECONDS)

    @operation
    def url(self, artifact_id: str) -> Request[ArtifactUrl]:
        """Makes a fresh download link, which works for anybody until it expires."""
        return Request("GET", self._of(artifact_id, "url"), one(ArtifactUrl))

    @operation
    def preview(self, artifact_id: str, *, rows: int = 20) -> Request[ArtifactPreview]:
        """Returns the tables of a spreadsheet, with their first rows."""
        return Request("GET", self._of(artifact_id, "preview"), one(ArtifactPreview), query={"rows": rows})

    @operation
    def download(self, artifact_id: str) -> Request[bytes]:
        return Request("GET", self._of(artifact_id, "download"), content, timeout=TRANSFER_SECONDS)

    @operation
    def save(self, artifact_id: str, path: str | os.PathLike[str]) -> Flow[int]:
        """Downloads an artifact into a file, which is there once it is whole; returns its bytes."""
        return saved(Request("GET", self._of(artifact_id, "download"), content), path, self._policy)

    @operation
    def save_all(self, path: str | os.PathLike[str]) -> Flow[int]:
        """Downloads all artifacts of the session as one ZIP archive; returns its bytes."""
        return saved(Request("GET", f"{self._path}download-all/", content), path, self._policy)

    @operation
    def copy_to_platform(self, artifact_id: str) -> Request[PlatformCopy]:
        """Keeps a file that the agent made among the company's files."""
        return Request("POST", self._of(artifact_id, "copy-to-platform"), one(PlatformCopy))

    @operation
    def remove_from_platform(self, artifact_id: str) -> Request[PlatformCopy]:
        return Request("POST", self._of(artifact_id, "remove-from-platform"), one(PlatformCopy))

    def _of(self, artifact_id: str, part: str) -> str:
        return f"{self._path}{path_of('{artifact}/{part}/', artifact=artifact_id, part=part)}"
