"""Files over the internal API; the replies are what the public API answers."""

from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Request
from starlette.responses import Response, StreamingResponse

from libs.contracts.api.files import File, FilePage, FileStatus, UploadedFiles
from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.service_defaults import caller
from libs.service_defaults.correlation import current_correlation_id
from libs.service_defaults.downloads import Wanted, download_headers, wanted
from libs.service_defaults.uploads import body_of, file_parts
from services.ingestion.domain.ports.files import FileFilter
from services.ingestion.use_cases.read_files import FileReading
from services.ingestion.use_cases.upload_files import FileUpload

Caller = Annotated[Identity, Depends(caller)]
Limit = Annotated[int, Query(ge=1, le=200)]
Offset = Annotated[int, Query(ge=0, le=2**31)]


def files_router(uploading: FileUpload, reading: FileReading) -> APIRouter:
    router = APIRouter(prefix="/internal/files")

    @router.post("", status_code=201, response_model=None)
    async def upload(
        request: Request, who: Caller, idempotency_key: Annotated[str | None, Header()] = None
    ) -> File | UploadedFiles:
        """One file answers its record, several a list."""
        parts = file_parts(body_of(request), request.headers.get("Content-Type", ""))
        label = current_correlation_id() or new_id()
        files = await uploading.upload(parts, who, label, idempotency_key)
        return files[0] if len(files) == 1 else UploadedFiles(success=True, files=files)

    @router.get("")
    async def list_files(
        who: Caller,
        limit: Limit = 50,
        offset: Offset = 0,
        status: FileStatus | None = None,
        tag: str | None = None,
        collection_id: str | None = None,
        name: str | None = None,
    ) -> FilePage:
        which = FileFilter(status=status, tag=tag, collection_id=collection_id, name=name)
        return await reading.page(who, which, limit=limit, offset=offset)

    @router.get("/{file_id}")
    async def get_file(file_id: str, who: Caller) -> File:
        return await reading.one(who, file_id)

    @router.get("/{file_id}/download", response_model=None)
    async def download(request: Request, file_id: str, who: Caller) -> Response:
        file = await reading.stored(who, file_id)
        want: Wanted = wanted(request.headers, size=file.size, etag=f'"{file.sha256}"')
        headers = download_headers(want, name=file.name, inline=False)
        if want.length == 0:
            return Response(status_code=want.status, headers=headers)
        pieces = await reading.content(file, start=want.start, length=want.length)
        # As a header, since a media type of text would be said to be in UTF-8.
        return StreamingResponse(pieces, want.status, {**headers, "Content-Type": file.content_type})

    return router
