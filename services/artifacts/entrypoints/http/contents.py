"""What is in artifacts, for agents."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from libs.contracts.api.artifacts import (
    Artifact,
    ArtifactLinkBody,
    ArtifactPassages,
    ArtifactSearchBody,
    ArtifactText,
)
from libs.contracts.identity import Identity
from libs.service_defaults import caller
from services.artifacts.use_cases.read_artifacts import ArtifactReading

Caller = Annotated[Identity, Depends(caller)]
Characters = Annotated[int, Query(ge=1, le=1_000_000)]
Offset = Annotated[int, Query(ge=0, le=2**31)]


def contents_router(reading: ArtifactReading) -> APIRouter:
    router = APIRouter(prefix="/internal/sessions/{session_id}/artifacts")

    @router.post("/resolve")
    async def behind_a_link(session_id: str, body: ArtifactLinkBody, who: Caller) -> Artifact:
        return await reading.behind(who, session_id, body.url)

    @router.post("/search")
    async def search(session_id: str, body: ArtifactSearchBody, who: Caller) -> ArtifactPassages:
        return await reading.search(who, session_id, body)

    @router.get("/{artifact_id}/text")
    async def text(
        session_id: str, artifact_id: str, who: Caller, offset: Offset = 0, limit: Characters = 100_000
    ) -> ArtifactText:
        return await reading.text(who, artifact_id, session_id, offset=offset, limit=limit)

    return router
