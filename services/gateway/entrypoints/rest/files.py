"""Serves ``/files/…``: the company's documents."""

from typing import Annotated, Final

import orjson
from fastapi import Depends, Query, Request, Security
from pydantic import Field
from starlette.responses import Response

from libs.contracts.identifiers import id_of
from libs.contracts.identity import Scope
from libs.contracts.resources.files import (
    BulkBody,
    BulkReply,
    ChangeFiles,
    DeleteFile,
    File,
    FilePage,
    FileText,
    UploadedFiles,
)
from services.gateway.domain.accounts import Principal
from services.gateway.entrypoints.door.answers import created, json_answer, rendered, results_in
from services.gateway.entrypoints.door.application import Submit, TransferProxyDep, Upstream
from services.gateway.entrypoints.door.bodies import ParsedBody
from services.gateway.entrypoints.door.callers import by_api_key
from services.gateway.entrypoints.door.queries import MAX_OFFSET, OptionalText, PageQuery, whole_number
from services.gateway.entrypoints.door.routes import FILE_ANSWERS, answer, errors, public_router
from services.gateway.entrypoints.door.upload_stream import UploadBody, UploadStream

router = public_router("/files", "Files")
Reader = Annotated[Principal, Security(by_api_key, scopes=[Scope.FILES_READ])]
Writer = Annotated[Principal, Security(by_api_key, scopes=[Scope.FILES_WRITE])]
_PART_CHARACTERS: Final = 100_000
_MOST_CHARACTERS: Final = 1_000_000
_Characters = Annotated[
    int,
    Field(ge=1, le=_MOST_CHARACTERS),
    whole_number("limit", 1, _MOST_CHARACTERS, _PART_CHARACTERS),
    Query(description="The maximum number of characters to return."),
]
_Skipped = Annotated[
    int,
    Field(ge=0, le=MAX_OFFSET),
    whole_number("offset", 0, MAX_OFFSET, 0),
    Query(description="The number of characters to skip."),
]


class FilesQuery(PageQuery):
    status: OptionalText = Field(
        None, description="Only files with this status.", json_schema_extra={"enum": ["active", "inactive"]}
    )
    tag: OptionalText = Field(None, description="Only files with this tag.")
    collection_id: OptionalText = Field(None, description="Only files in this collection.")
    name: OptionalText = Field(None, description="Only files whose name contains this text, ignoring case.")


Upload = Annotated[UploadStream, Depends(UploadBody())]
FileChanges = Annotated[BulkBody, Depends(ParsedBody(BulkBody))]


@router.get(
    "/", operation_id="files.list", summary="List files", responses={200: answer("Files, newest first.", FilePage)}
)
async def list_files(caller: Reader, page: Annotated[FilesQuery, Query()], upstream: Upstream) -> Response:
    return await upstream.get(caller, "ingestion", "/internal/files", page.params())


@router.get(
    "/{id:name}/",
    operation_id="files.get",
    summary="Get a file",
    responses={200: answer("The file.", File), **errors(404)},
)
async def get_file(id: str, caller: Reader, upstream: Upstream) -> Response:
    return await upstream.get(caller, "ingestion", f"/internal/files/{id_of(id, 'file')}")


@router.get(
    "/{id:name}/text/",
    operation_id="files.text",
    summary="Read a file's text",
    description=(
        "Returns the text that knowledge bases index. To read a long text, increase `offset` until it"
        " reaches `characters`."
    ),
    responses={200: answer("The requested part of the text.", FileText), **errors(404, 409, 422)},
)
async def read_file_text(
    id: str,
    caller: Reader,
    upstream: Upstream,
    offset: _Skipped = 0,
    limit: _Characters = _PART_CHARACTERS,
) -> Response:
    part = {"offset": offset, "limit": limit}
    return await upstream.get(caller, "ingestion", f"/internal/files/{id_of(id, 'file')}/text", part)


@router.get(
    "/{id:name}/download/",
    operation_id="files.download",
    summary="Download a file",
    description="Supports `Range` and `If-None-Match`; `ETag` identifies the content.",
    responses={**FILE_ANSWERS, **errors(404, 416)},
)
async def download_file(request: Request, id: str, caller: Reader, transfers: TransferProxyDep) -> Response:
    path = f"/internal/files/{id_of(id, 'file')}/download"
    return await transfers.download(request, caller, "ingestion", path)


@router.post(
    "/",
    operation_id="files.upload",
    summary="Upload files",
    description=(
        "Send files of up to 50 MiB each in fields named `file`. Either all files are stored, or none."
        " The extension determines the type, which must match the content. Returns the file, or a list if you sent"
        " several files."
    ),
    status_code=201,
    responses={201: answer("The stored files.", File | UploadedFiles, location=True)},
)
async def upload_files(request: Request, caller: Writer, body: Upload, transfers: TransferProxyDep) -> Response:
    reply = await transfers.upload(request, caller, body, "ingestion", "/internal/files")
    record = orjson.loads(reply)
    return created(reply, f"/files/{record['id']}/" if "id" in record else None)


@router.post(
    "/bulk/",
    operation_id="files.bulk",
    summary="Change or delete many files",
    description=(
        "`delete` deletes the files, `update_tags` replaces their tags with `parameters.tags`, and `change_status`"
        " sets `parameters.status`. Inactive files are excluded from searches. Each file is handled separately."
    ),
    responses={200: answer("The result for each file.", BulkReply)},
)
async def change_files(_: Writer, body: FileChanges, submit: Submit) -> Response:
    tags, status = body.parameters.tags, body.parameters.status
    command = ChangeFiles(operation=body.operation, file_ids=body.file_ids, tags=tags, status=status)
    return json_answer(results_in(await submit(command)))


@router.delete(
    "/{id:name}/",
    operation_id="files.delete",
    summary="Delete a file",
    description="Also removes the file from its collections and from search results.",
    status_code=204,
    responses={204: answer("The file was deleted."), **errors(404)},
)
async def delete_file(id: str, _: Writer, submit: Submit) -> Response:
    return rendered(await submit(DeleteFile(file_id=id_of(id, "file"))))
