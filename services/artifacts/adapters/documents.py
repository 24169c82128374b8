"""Texts and passages of documents, asked of the service that indexes them."""

from collections.abc import Sequence
from typing import Any

import orjson
from pydantic import ValidationError

from libs.contracts.api.artifacts import ArtifactPassage, ArtifactPassages, ArtifactSearchBody, ArtifactText
from libs.contracts.errors import ErrorInfo, ServiceUnavailable, error_from
from libs.contracts.identity import Identity
from libs.service_defaults import OwnerClient, OwnerResponse

# Less than whoever asked here waits.
_DEADLINE_SECONDS = 4.0


class IndexedDocuments:
    def __init__(self, calls: OwnerClient) -> None:
        self._calls = calls

    async def text(self, artifact_id: str, caller: Identity, *, offset: int, limit: int) -> ArtifactText:
        path = f"/internal/artifact-texts/{artifact_id}"
        where: dict[str, Any] = {"offset": offset, "limit": limit}
        answer = await self._calls.get("ingestion", path, caller, where, deadline=_DEADLINE_SECONDS)
        return ArtifactText.model_validate_json(_checked(answer))

    async def search(
        self, artifact_ids: Sequence[str], caller: Identity, body: ArtifactSearchBody
    ) -> list[ArtifactPassage]:
        asked = body.model_copy(update={"artifact_ids": list(artifact_ids)}).model_dump_json().encode()
        path = "/internal/artifact-texts/search"
        answer = await self._calls.request("POST", "ingestion", path, caller, body=asked, deadline=_DEADLINE_SECONDS)
        return ArtifactPassages.model_validate_json(_checked(answer)).results


def _checked(answer: OwnerResponse) -> bytes:
    if answer.status == 200:
        return answer.body
    try:
        info = ErrorInfo.model_validate(orjson.loads(answer.body)["error"])
    except (orjson.JSONDecodeError, ValidationError, KeyError, TypeError):
        raise ServiceUnavailable(f"the ingestion service answered {answer.status}", retry_after=2) from None
    raise error_from(info)
