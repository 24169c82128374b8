"""Serves ``/openai/v1/files``: the company's documents."""

from collections.abc import AsyncGenerator
from typing import Annotated, Any, Final

from fastapi import Query, Request, Security
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from libs.blobs.forms import FIELD, without_fields
from libs.contracts.errors import ServiceError
from libs.contracts.identifiers import id_of
from libs.contracts.identity import Scope
from libs.contracts.resources.files import DeleteFile, File, FilePage
from libs.contracts.timestamps import parse_time
from services.gateway.domain.accounts import Principal
from services.gateway.entrypoints.door.answers import value_answer
from services.gateway.entrypoints.door.application import DoorDep, TransferProxyDep, Upstream, protocol_router
from services.gateway.entrypoints.door.callers import by_api_key
from services.gateway.entrypoints.door.queries import whole_number
from services.gateway.entrypoints.door.upload_stream import UploadStream
from services.gateway.entrypoints.door.writes import IdempotentWrite
from services.gateway.entrypoints.openai.conventions import PREFIX, deleted, refuse
from services.gateway.entrypoints.openai.pages import ListQuery, page

router: Final = protocol_router(f"{PREFIX}/files")
Reader = Annotated[Principal, Security(by_api_key, scopes=[Scope.FILES_READ])]
Writer = Annotated[Principal, Security(by_api_key, scopes=[Scope.FILES_WRITE])]
_FILES: Final = "/internal/files"
_PURPOSE: Final = "assistants"
_PURPOSES: Final = (_PURPOSE, "user_data")
"""The supported purposes."""


class _FileForm(UploadStream):
    """Validates and removes the ``purpose`` in an upload's form."""

    def __init__(self, request: Request) -> None:
        super().__init__(request.receive, request.headers)
        self._content_type = request.headers.get("content-type", "")
        self._purpose: str | None = None
        self._files = 0

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        try:
            async for piece in without_fields(super().pieces(), self._content_type, self._take):
                yield piece
            if self._purpose is None:
                raise refuse("purpose", "The form has no `purpose` field. Add it.", "missing")
        except (ServiceError, ClientDisconnect) as problem:
            self.problem = problem
            raise

    def _take(self, name: str, value: str) -> None:
        if name == FIELD:
            self._files += 1
            if self._files > 1:
                raise refuse(FIELD, "The form contains more than one file. Send one file at a time.", "invalid_value")
            return
        if name != "purpose":
            raise refuse(name[:100], f"{name[:100]!r} isn't supported.")
        if value not in _PURPOSES:
            raise refuse("purpose", f"`purpose` must be one of {', '.join(_PURPOSES)}.", "invalid_value")
        self._purpose = value


@router.post("")
async def upload_file(request: Request, caller: Writer, transfers: TransferProxyDep) -> Response:
    stored = await transfers.upload(request, caller, _FileForm(request), "ingestion", _FILES)
    return value_answer(_file(File.model_validate_json(stored)))


class FilesQuery(ListQuery):
    limit: Annotated[int, whole_number("limit", 1, 10_000, 200)] = 200
    purpose: str = _PURPOSE


@router.get("")
async def list_files(cursor: Annotated[FilesQuery, Query()], caller: Reader, upstream: Upstream) -> Response:
    if cursor.purpose not in _PURPOSES:
        return page([], has_more=False)
    found = await upstream.read(FilePage, caller, "ingestion", _FILES, cursor.upstream())
    return page([_file(file) for file in found.files], has_more=found.has_more)


@router.get("/{file_id}")
async def get_file(file_id: str, caller: Reader, upstream: Upstream) -> Response:
    found = await upstream.read(File, caller, "ingestion", f"{_FILES}/{id_of(file_id, 'file')}")
    return value_answer(_file(found))


@router.get("/{file_id}/content")
async def get_file_content(request: Request, file_id: str, caller: Reader, transfers: TransferProxyDep) -> Response:
    return await transfers.download(request, caller, "ingestion", f"{_FILES}/{id_of(file_id, 'file')}/download")


@router.delete("/{file_id}")
async def delete_file(file_id: str, _: Writer, write: IdempotentWrite, door: DoorDep) -> Response:
    file_id = id_of(file_id, "file")
    await door.commands.run(write, DeleteFile(file_id=file_id))
    return deleted(file_id, "file")


def _file(file: File) -> dict[str, Any]:
    return {
        "id": file.id,
        "object": "file",
        "bytes": file.size,
        "created_at": int(parse_time(file.created_at).timestamp()),
        "filename": file.name,
        "purpose": _PURPOSE,
        "status": "processed",
        "expires_at": None,
        "status_details": None,
    }
