"""Texts and passages of sessions' documents, for the service that keeps the artifacts."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from libs.contracts.api.artifacts import ArtifactPassages, ArtifactSearchBody, ArtifactText
from libs.contracts.identity import Identity
from libs.service_defaults import caller
from services.ingestion.use_cases.search_artifacts import ArtifactTexts

Caller = Annotated[Identity, Depends(caller)]


def artifact_texts_router(texts: ArtifactTexts) -> APIRouter:
    router = APIRouter(prefix="/internal/artifact-texts")

    @router.post("/search")
    async def search(body: ArtifactSearchBody, who: Caller) -> ArtifactPassages:
        return await texts.search(who, body)

    @router.get("/{artifact_id}")
    async def text(
        artifact_id: str,
        who: Caller,
        offset: Annotated[int, Query(ge=0, le=2**31)] = 0,
        limit: Annotated[int, Query(ge=1, le=1_000_000)] = 100_000,
    ) -> ArtifactText:
        return await texts.text(who, artifact_id, offset=offset, limit=limit)

    return router
