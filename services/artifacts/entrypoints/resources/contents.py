"""Routes that read the contents of artifacts: tables, texts and passages."""

from typing import Annotated

from fastapi import APIRouter, FastAPI, Query

from libs.contracts.resources.artifacts import ArtifactPassages, ArtifactPreview, ArtifactSearchBody, ArtifactText
from libs.service_defaults import Caller, Offset
from services.artifacts.use_cases.contents import Contents

Characters = Annotated[int, Query(ge=1, le=1_000_000)]
Rows = Annotated[int, Query(ge=1, le=100)]


def serve_contents(http: FastAPI, contents: Contents) -> None:
    router = APIRouter(prefix="/internal/sessions/{session_id}/artifacts")

    @router.get("/{artifact_id}/preview")
    async def preview_tables(session_id: str, artifact_id: str, who: Caller, rows: Rows = 20) -> ArtifactPreview:
        return await contents.preview(who, artifact_id, session_id, rows=rows)

    @router.post("/search")
    async def search(session_id: str, body: ArtifactSearchBody, who: Caller) -> ArtifactPassages:
        return await contents.search(who, session_id, body)

    @router.get("/{artifact_id}/text")
    async def text(
        session_id: str, artifact_id: str, who: Caller, offset: Offset = 0, limit: Characters = 100_000
    ) -> ArtifactText:
        return await contents.text(who, artifact_id, session_id, offset=offset, limit=limit)

    http.include_router(router)
