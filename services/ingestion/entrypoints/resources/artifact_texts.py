"""Routes that the artifacts service uses to read and search session documents."""

from typing import Annotated

from fastapi import APIRouter, FastAPI, Query

from libs.contracts.resources.artifacts import ArtifactPassages, ArtifactSearchBody, ArtifactText
from libs.service_defaults import Caller, Offset
from services.ingestion.use_cases.read_text import ReadArtifactText
from services.ingestion.use_cases.search import SearchArtifacts


def serve_artifact_texts(http: FastAPI, read: ReadArtifactText, search: SearchArtifacts) -> None:
    router = APIRouter(prefix="/internal/artifact-texts")

    @router.post("/search")
    async def search_artifacts(body: ArtifactSearchBody, caller: Caller) -> ArtifactPassages:
        return await search(caller, body)

    @router.get("/{artifact_id}")
    async def read_text(
        artifact_id: str,
        caller: Caller,
        offset: Offset = 0,
        limit: Annotated[int, Query(ge=1, le=1_000_000)] = 100_000,
    ) -> ArtifactText:
        return await read(caller, artifact_id, offset=offset, limit=limit)

    http.include_router(router)
