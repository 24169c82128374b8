"""Artifacts over the internal API; the replies are what the public API answers."""

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Request
from starlette.responses import Response, StreamingResponse

from libs.contracts.api.artifacts import (
    Artifact,
    ArtifactPage,
    ArtifactPreview,
    ArtifactState,
    ArtifactUrl,
)
from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.service_defaults import caller
from libs.service_defaults.correlation import current_correlation_id
from libs.service_defaults.uploads import FilePart, body_of, file_parts
from services.artifacts.entrypoints.http.downloads import bytes_of
from services.artifacts.use_cases.pack_artifacts import ArtifactPacking
from services.artifacts.use_cases.read_artifacts import ArtifactReading
from services.artifacts.use_cases.upload_artifact import ArtifactUpload, Upload

Caller = Annotated[Identity, Depends(caller)]
Limit = Annotated[int, Query(ge=1, le=200)]
Offset = Annotated[int, Query(ge=0, le=2**31)]
Preview = Annotated[str, Query(max_length=20)]
Rows = Annotated[int, Query(ge=1, le=100)]
Key = Annotated[str | None, Header()]


def artifacts_router(uploading: ArtifactUpload, reading: ArtifactReading, packing: ArtifactPacking) -> APIRouter:
    router = APIRouter(prefix="/internal")
    of_session = "/sessions/{session_id}/artifacts"

    @router.post(of_session, status_code=201)
    async def upload(request: Request, session_id: str, who: Caller, idempotency_key: Key = None) -> Artifact:
        parts = file_parts(body_of(request), request.headers.get("Content-Type", ""))
        return await uploading.upload(
            parts,
            Upload(session_id=session_id, caller=who, origin="uploaded", correlation_id=_label(), key=idempotency_key),
        )

    @router.post("/sessions/{session_id}/generated-artifacts", status_code=201)
    async def keep_generated(
        request: Request, session_id: str, who: Caller, name: str, key: str | None = None
    ) -> Artifact:
        """What an agent made; the body is its bytes."""
        return await uploading.upload(
            _only(FilePart(name, body_of(request))),
            Upload(session_id=session_id, caller=who, origin="generated", correlation_id=_label(), key=key),
        )

    @router.get(of_session)
    async def list_artifacts(session_id: str, who: Caller, limit: Limit = 50, offset: Offset = 0) -> ArtifactPage:
        return await reading.page(who, session_id, limit=limit, offset=offset)

    @router.get(f"{of_session}/download-all", response_model=None)
    async def download_all(session_id: str, who: Caller) -> Response:
        pieces = await packing.pack(who, session_id)
        headers = {
            "Content-Disposition": 'attachment; filename="artifacts.zip"',
            "Cache-Control": "private, no-store",
            "X-Content-Type-Options": "nosniff",
        }
        return StreamingResponse(pieces, 200, headers, media_type="application/zip")

    @router.get(f"{of_session}/{{artifact_id}}")
    async def get_of_session(session_id: str, artifact_id: str, who: Caller) -> Artifact:
        return await reading.one(who, artifact_id, session_id)

    @router.get(f"{of_session}/{{artifact_id}}/status", response_model_exclude_unset=False)
    async def status(session_id: str, artifact_id: str, who: Caller) -> ArtifactState:
        return await reading.state(who, artifact_id, session_id)

    @router.get(f"{of_session}/{{artifact_id}}/url")
    async def url(session_id: str, artifact_id: str, who: Caller) -> ArtifactUrl:
        return await reading.link(who, artifact_id, session_id)

    @router.get(f"{of_session}/{{artifact_id}}/download", response_model=None)
    async def download(
        request: Request, session_id: str, artifact_id: str, who: Caller, preview: Preview = ""
    ) -> Response:
        artifact = await reading.stored(who, artifact_id, session_id)
        return await bytes_of(request, reading, artifact, preview=preview in ("1", "true"))

    @router.get(f"{of_session}/{{artifact_id}}/preview")
    async def preview_tables(session_id: str, artifact_id: str, who: Caller, rows: Rows = 20) -> ArtifactPreview:
        return await reading.preview(who, artifact_id, session_id, rows=rows)

    @router.get("/artifacts/{artifact_id}")
    async def get_artifact(artifact_id: str, who: Caller) -> Artifact:
        return await reading.one(who, artifact_id)

    @router.get("/artifact-links/{artifact_id}", response_model=None)
    async def by_link(request: Request, artifact_id: str, _service: Caller) -> Response:
        """What a link shows to anybody; its query is passed on as it was given."""
        artifact = await reading.by_link(artifact_id, request.query_params.multi_items())
        return await bytes_of(request, reading, artifact, preview=False)

    return router


def _label() -> str:
    return current_correlation_id() or new_id()


async def _only(part: FilePart) -> AsyncIterator[FilePart]:
    yield part
