"""Reads artifacts through the artifacts service's internal API."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from libs.contracts.errors import NotFound, ServiceError, ServiceUnavailable
from libs.contracts.identity import Identity, Scope
from libs.contracts.resources.artifacts import BYTES_MISSING
from libs.service_defaults import UpstreamClient
from libs.service_defaults.internal_calls import refusal
from services.ingestion.domain.artifacts import ArtifactBytesMissing


class HttpArtifactSource:
    """Reads artifacts over HTTP. Raises ``NotFound``, ``ArtifactBytesMissing`` and ``ServiceUnavailable``."""

    def __init__(self, calls: UpstreamClient) -> None:
        self._calls = calls

    @asynccontextmanager
    async def content(self, session_id: str, artifact_id: str, caller: Identity) -> AsyncIterator[AsyncIterator[bytes]]:
        """Streams the artifact's bytes."""
        path = f"/internal/sessions/{session_id}/artifacts/{artifact_id}/download"
        async with self._calls.exchange("GET", "artifacts", path, caller) as answer:
            if answer.status != 200:
                raise _problem(answer.status, b"".join([piece async for piece in answer.pieces]))
            yield answer.pieces

    @asynccontextmanager
    async def as_file(self, session_id: str, artifact_id: str, company_id: str) -> AsyncIterator[Path]:
        """Downloads the artifact to a temporary file and yields its path."""
        # The service acts on behalf of the company, since there's no caller here.
        service = Identity(
            company_id=company_id, user_id="service", key_id="service", scopes=frozenset({Scope.COMPANY_READ})
        )
        with tempfile.TemporaryDirectory(prefix="aes-artifact-") as directory:
            path = Path(directory) / "content"
            with path.open("wb") as file:
                async with self.content(session_id, artifact_id, service) as pieces:
                    async for piece in pieces:
                        await asyncio.to_thread(file.write, piece)
            yield path


def _problem(status: int, body: bytes) -> ServiceError:
    if status == 404:
        return NotFound("There is no artifact with this ID.")
    error = refusal(status, body)
    if BYTES_MISSING in {detail.type for detail in error.details or []}:
        return ArtifactBytesMissing(error.message)
    return ServiceUnavailable(f"The artifacts service returned status {status}.", retry_after=2)
