"""Routes and command handlers of files."""

from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, FastAPI, Header, Query, Request
from starlette.responses import Response

from libs.blobs import downloads, original_key
from libs.blobs.forms import body_of, file_parts
from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.contracts.resources.files import (
    ChangeFiles,
    CopyArtifact,
    DeleteFile,
    File,
    FilePage,
    FileStatus,
    FileText,
    UploadedFiles,
)
from libs.eventing import CommandRouter
from libs.objects import ObjectMissing, ObjectStore
from libs.service_defaults import Caller, Cursor, Limit, Offset
from libs.tracing import current_correlation_id
from services.ingestion.adapters.postgres.files import PostgresFileReader
from services.ingestion.domain.files import FileFilter, FileNotFound
from services.ingestion.use_cases.copy_artifacts import CopyArtifacts
from services.ingestion.use_cases.files import Files
from services.ingestion.use_cases.read_text import ReadFileText
from services.ingestion.use_cases.upload_files import UploadFiles

Order = Literal["asc", "desc"]
Characters = Annotated[int, Query(ge=1, le=1_000_000)]


async def _file_filter(
    status: FileStatus | None = None,
    tag: str | None = None,
    collection_id: str | None = None,
    name: str | None = None,
    after: str | None = None,
    order: Order = "desc",
) -> FileFilter:
    return FileFilter(
        status=status, tag=tag, collection_id=collection_id, name=name, after=after, oldest_first=order == "asc"
    )


Which = Annotated[FileFilter, Depends(_file_filter)]


def serve_files(
    commands: CommandRouter,
    http: FastAPI,
    upload: UploadFiles,
    copy: CopyArtifacts,
    files: PostgresFileReader,
    read_text: ReadFileText,
    store: ObjectStore,
) -> None:
    changes = Files()
    commands.handle(DeleteFile, changes.delete)
    commands.handle(ChangeFiles, changes.change)
    commands.handle_prepared(CopyArtifact, copy.fetch, copy.store)
    http.include_router(_router(upload, files, read_text, store))


def _router(
    upload_files: UploadFiles, files: PostgresFileReader, read_text: ReadFileText, store: ObjectStore
) -> APIRouter:
    router = APIRouter(prefix="/internal/files")

    @router.post("", status_code=201, response_model=None)
    async def upload(
        request: Request, caller: Caller, idempotency_key: Annotated[str | None, Header()] = None
    ) -> File | UploadedFiles:
        """Stores the files. Returns the file, or a list if there are several."""
        parts = file_parts(body_of(request), request.headers.get("Content-Type", ""))
        correlation_id = current_correlation_id() or new_id()
        uploaded = await upload_files(parts, caller, correlation_id, idempotency_key)
        return uploaded[0] if len(uploaded) == 1 else UploadedFiles(success=True, files=uploaded)

    @router.get("")
    async def list_files(
        caller: Caller, which: Which, limit: Limit = 50, offset: Offset = 0, cursor: Cursor = None
    ) -> FilePage:
        return await file_page(files, caller, which, limit=limit, offset=offset, cursor=cursor)

    @router.get("/{file_id}")
    async def get_file(file_id: str, caller: Caller) -> File:
        return (await files.get(caller.company_id, file_id)).public()

    @router.get("/{file_id}/text")
    async def get_text(file_id: str, caller: Caller, offset: Offset = 0, limit: Characters = 100_000) -> FileText:
        return await read_text(caller, file_id, offset=offset, limit=limit)

    @router.get("/{file_id}/download", response_model=None)
    async def download(request: Request, file_id: str, caller: Caller) -> Response:
        file = await files.get(caller.company_id, file_id)
        try:
            return await downloads.download(request, file, partial(store.open, original_key(file.blob_id)))
        except ObjectMissing:
            raise FileNotFound() from None

    return router


async def file_page(
    files: PostgresFileReader, caller: Identity, which: FileFilter, *, limit: int, offset: int, cursor: str | None
) -> FilePage:
    page = await files.page(caller.company_id, which, limit=limit, offset=offset, cursor=cursor)
    return FilePage(files=[file.public() for file in page.items], **page.facts)
