"""Routes and command handlers of artifacts: uploads, downloads, reads and copies."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated

from fastapi import APIRouter, FastAPI, Header, Query, Request
from starlette.responses import Response, StreamingResponse

from libs.blobs import downloads
from libs.blobs.forms import FilePart, body_of, file_parts
from libs.contracts.identifiers import new_id
from libs.contracts.resources.artifacts import (
    Artifact,
    ArtifactLinkBody,
    ArtifactPage,
    ArtifactState,
    ArtifactUrl,
    CopyArtifactToPlatform,
    RemoveArtifactFromPlatform,
)
from libs.eventing import CommandRouter
from libs.service_defaults import Caller, Cursor, Limit, Offset
from libs.tracing import current_correlation_id
from services.artifacts.domain.artifacts import is_safe_inline
from services.artifacts.domain.links import artifact_of
from services.artifacts.use_cases.contents import Contents
from services.artifacts.use_cases.copy_to_platform import PlatformCopies
from services.artifacts.use_cases.links import Links
from services.artifacts.use_cases.pack_artifacts import packed
from services.artifacts.use_cases.upload_artifact import Upload, UploadArtifact

Preview = Annotated[str, Query(max_length=20)]
Key = Annotated[str | None, Header()]
_OF_SESSION = "/sessions/{session_id}/artifacts"


def serve_artifacts(
    commands: CommandRouter,
    http: FastAPI,
    contents: Contents,
    links: Links,
    upload: UploadArtifact,
) -> None:
    # These commands end when ingestion has answered.
    copies = PlatformCopies()
    commands.handle(CopyArtifactToPlatform, copies.copy, ends_later=True)
    commands.handle(RemoveArtifactFromPlatform, copies.remove, ends_later=True)
    http.include_router(_uploads(upload))
    # `download-all` must come before `{artifact_id}`, which would match it, too.
    http.include_router(_downloads(contents))
    http.include_router(_reads(contents, links))


def _uploads(upload: UploadArtifact) -> APIRouter:
    router = APIRouter(prefix="/internal")

    @router.post(_OF_SESSION, status_code=201)
    async def upload_artifact(request: Request, session_id: str, who: Caller, idempotency_key: Key = None) -> Artifact:
        parts = file_parts(body_of(request), request.headers.get("Content-Type", ""))
        what = Upload(
            session_id=session_id,
            caller=who,
            origin="uploaded",
            correlation_id=_correlation_id(),
            key=idempotency_key,
        )
        return await upload(parts, what)

    @router.post("/sessions/{session_id}/generated-artifacts", status_code=201)
    async def keep_generated(
        request: Request, session_id: str, who: Caller, name: str, key: str | None = None
    ) -> Artifact:
        """Stores an artifact that an agent created. The request body is the artifact's content."""
        what = Upload(session_id=session_id, caller=who, origin="generated", correlation_id=_correlation_id(), key=key)
        return await upload(_only(FilePart(name, body_of(request))), what)

    return router


def _reads(contents: Contents, links: Links) -> APIRouter:
    router, access = APIRouter(prefix="/internal"), contents.access

    @router.get(_OF_SESSION)
    async def list_artifacts(
        session_id: str, who: Caller, limit: Limit = 50, offset: Offset = 0, cursor: Cursor = None
    ) -> ArtifactPage:
        await contents.sessions.readable(session_id, who)
        page = await contents.artifacts.page(session_id, limit=limit, offset=offset, cursor=cursor)
        return ArtifactPage(artifacts=page.map(links.public).items, **page.facts)

    @router.get(f"{_OF_SESSION}/{{artifact_id}}")
    async def get_of_session(session_id: str, artifact_id: str, who: Caller) -> Artifact:
        return links.public(await access.readable(who, artifact_id, session_id))

    @router.get(f"{_OF_SESSION}/{{artifact_id}}/status", response_model_exclude_unset=False)
    async def status(session_id: str, artifact_id: str, who: Caller) -> ArtifactState:
        found = await access.readable(who, artifact_id, session_id)
        return ArtifactState(
            artifact_id=found.id, processing_status=found.status, progress=found.progress, error=found.error
        )

    @router.get(f"{_OF_SESSION}/{{artifact_id}}/url")
    async def url(session_id: str, artifact_id: str, who: Caller) -> ArtifactUrl:
        return links.link(await access.readable(who, artifact_id, session_id))

    @router.post(f"{_OF_SESSION}/resolve")
    async def resolve_link(session_id: str, body: ArtifactLinkBody, who: Caller) -> Artifact:
        """Returns the artifact that a link refers to, even if the link has expired."""
        return links.public(await access.readable(who, artifact_of(body.url) or "", session_id))

    @router.get("/artifacts/{artifact_id}")
    async def get_artifact(artifact_id: str, who: Caller) -> Artifact:
        return links.public(await access.readable(who, artifact_id))

    return router


def _downloads(contents: Contents) -> APIRouter:
    router, access = APIRouter(prefix="/internal"), contents.access

    @router.get(f"{_OF_SESSION}/download-all", response_model=None)
    async def download_all(session_id: str, who: Caller) -> Response:
        pieces = await packed(contents, who, session_id)
        headers = {
            "Content-Disposition": 'attachment; filename="artifacts.zip"',
            "Cache-Control": "private, no-store",
            "X-Content-Type-Options": "nosniff",
        }
        return StreamingResponse(pieces, 200, headers, media_type="application/zip")

    @router.get(f"{_OF_SESSION}/{{artifact_id}}/download", response_model=None)
    async def download(
        request: Request, session_id: str, artifact_id: str, who: Caller, preview: Preview = ""
    ) -> Response:
        artifact = await access.readable(who, artifact_id, session_id)
        inline = preview in ("1", "true") and is_safe_inline(artifact.content_type)
        return await downloads.download(request, artifact, partial(contents.open, artifact), inline=inline)

    @router.get("/artifact-links/{artifact_id}", response_model=None)
    async def by_link(request: Request, artifact_id: str, _service: Caller) -> Response:
        """Serves the artifact that a signed link refers to."""
        artifact = await access.by_link(artifact_id, request.query_params.multi_items())
        return await downloads.download(request, artifact, partial(contents.open, artifact))

    return router


def _correlation_id() -> str:
    return current_correlation_id() or new_id()


async def _only(part: FilePart) -> AsyncIterator[FilePart]:
    yield part
