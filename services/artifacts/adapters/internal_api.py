"""Reads sessions from the runtime, and document texts from ingestion."""

from collections.abc import Sequence
from typing import Any

import orjson

from libs.contracts.errors import ServiceUnavailable
from libs.contracts.identity import Identity
from libs.contracts.resources.artifacts import ArtifactPassage, ArtifactPassages, ArtifactSearchBody, ArtifactText
from libs.service_defaults import UpstreamClient
from libs.service_defaults.internal_calls import checked
from services.artifacts.domain.artifacts import KnownSession

# Must be shorter than the timeouts of this service's callers.
_DEADLINE_SECONDS = 4.0


class HttpDocuments:
    """Reads the texts of documents from the ingestion service. Raises ``ServiceUnavailable``."""

    def __init__(self, calls: UpstreamClient) -> None:
        self._calls = calls

    async def text(self, artifact_id: str, caller: Identity, *, offset: int, limit: int) -> ArtifactText:
        path = f"/internal/artifact-texts/{artifact_id}"
        where: dict[str, Any] = {"offset": offset, "limit": limit}
        answer = await self._calls.get("ingestion", path, caller, where, deadline=_DEADLINE_SECONDS)
        return ArtifactText.model_validate_json(checked(answer))

    async def search(
        self, artifact_ids: Sequence[str], caller: Identity, body: ArtifactSearchBody
    ) -> list[ArtifactPassage]:
        asked = body.model_copy(update={"artifact_ids": list(artifact_ids)}).model_dump_json().encode()
        path = "/internal/artifact-texts/search"
        answer = await self._calls.request("POST", "ingestion", path, caller, body=asked, deadline=_DEADLINE_SECONDS)
        return ArtifactPassages.model_validate_json(checked(answer)).results


class HttpSessions:
    def __init__(self, calls: UpstreamClient) -> None:
        self._calls = calls

    async def session(self, session_id: str, caller: Identity) -> KnownSession | None:
        """Returns the session, or None if the caller can't see it. Raises ``ServiceUnavailable``."""
        answer = await self._calls.get("runtime", f"/internal/sessions/{session_id}", caller)
        if answer.status == 404:
            return None
        if answer.status != 200:
            raise ServiceUnavailable(
                f"The runtime service returned status {answer.status}. Try again later.", retry_after=2
            )
        found = orjson.loads(answer.body)
        return KnownSession(session_id, caller.company_id, found["owner_id"], deleted=found["status"] != "active")
