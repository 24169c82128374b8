"""Texts and passages of documents, asked of the service that indexes them."""

from collections.abc import Sequence
from typing import Any

from libs.contracts.api.artifacts import ArtifactPassage, ArtifactPassages, ArtifactSearchBody, ArtifactText
from libs.contracts.identity import Identity
from libs.service_defaults import UpstreamClient
from libs.service_defaults.upstream_answers import checked

# Less than whoever asked here waits.
_DEADLINE_SECONDS = 4.0


class IndexedDocuments:
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
