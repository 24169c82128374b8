"""``/files/…``: documents of the company."""

from typing import Annotated, Any, Final

import orjson
from fastapi import Depends, Request, Security
from starlette.responses import Response

from libs.contracts.api.files import BulkBody, BulkReply, File, FilePage, FileText, UploadedFiles
from libs.contracts.commands.ingestion import ChangeFiles, DeleteFile
from libs.contracts.identity import Scope
from services.gateway.domain.accounts import Principal
from services.gateway.domain.identifiers import id_of
from services.gateway.entrypoints.http import examples
from services.gateway.entrypoints.http.authentication import by_api_key
from services.gateway.entrypoints.http.bodies import ParsedBody
from services.gateway.entrypoints.http.dependencies import IdempotentWrite, Paging, UseCasesDep
from services.gateway.entrypoints.http.forwarding import TransferProxyDep, Upstream, created, json_answer, results_in
from services.gateway.entrypoints.http.reference.described import answer, errors, file_answer
from services.gateway.entrypoints.http.reference.parameters import also_takes, query_parameter
from services.gateway.entrypoints.http.routing import public_router
from services.gateway.entrypoints.http.upload_stream import UploadBody, UploadStream
from services.gateway.entrypoints.http.validation import MAX_OFFSET, number_of, query_values

router = public_router("/files", "Files")
Reader = Annotated[Principal, Security(by_api_key, scopes=[Scope.FILES_READ])]
Writer = Annotated[Principal, Security(by_api_key, scopes=[Scope.FILES_WRITE])]
_FILTERS: Final = (
    query_parameter("status", "Only files in this status.", type="string", enum=["active", "inactive"]),
    query_parameter("tag", "Only files with this tag."),
    query_parameter("collection_id", "Only files of this collection."),
    query_parameter("name", "Only files with this in their name, in any case."),
)

_PART_CHARACTERS: Final = 100_000
_MOST_CHARACTERS: Final = 1_000_000
_PART: Final = (
    query_parameter("offset", "Characters to skip.", type="integer", minimum=0, maximum=MAX_OFFSET, default=0),
    query_parameter(
        "limit", "Characters.", type="integer", minimum=1, maximum=_MOST_CHARACTERS, default=_PART_CHARACTERS
    ),
)


@router.get("/", summary="List files", responses={200: answer("Files, newest first.", FilePage)})
async def list_files(
    caller: Reader, page: Annotated[dict[str, Any], Depends(Paging(_FILTERS))], upstream: Upstream
) -> Response:
    return await upstream.get(caller, "ingestion", "/internal/files", page)


@router.get("/{id:name}/", summary="Get a file's record", responses={200: answer("The record.", File), **errors(404)})
async def get_file(id: str, caller: Reader, upstream: Upstream) -> Response:
    return await upstream.get(caller, "ingestion", f"/internal/files/{id_of(id, 'file')}")


@router.get(
    "/{id:name}/text/",
    summary="Read a file's text",
    description=(
        "The text as it was read for collections and knowledge bases, of which passages are parts. Read on with"
        " `offset`, until it reaches `characters`."
    ),
    openapi_extra=also_takes(*_PART),
    responses={200: answer("A part of the text.", FileText), **errors(404, 409, 422)},
)
async def read_file_text(request: Request, id: str, caller: Reader, upstream: Upstream) -> Response:
    given = query_values(request.scope["query_string"])
    part = {
        "offset": number_of(given, "offset", 0, 0, MAX_OFFSET),
        "limit": number_of(given, "limit", _PART_CHARACTERS, 1, _MOST_CHARACTERS),
    }
    return await upstream.get(caller, "ingestion", f"/internal/files/{id_of(id, 'file')}/text", part)


@router.get(
    "/{id:name}/download/",
    summary="Download a file",
    description="Takes `Range` and `If-None-Match`; `ETag` names the content.",
    responses={
        200: file_answer("The file's bytes."),
        206: file_answer("The part of them that was asked for."),
        304: answer("You have them already."),
        **errors(404, 416),
    },
)
async def download_file(request: Request, id: str, caller: Reader, transfers: TransferProxyDep) -> Response:
    path = f"/internal/files/{id_of(id, 'file')}/download"
    return await transfers.download(request, caller, "ingestion", path)


@router.post(
    "/",
    summary="Upload files",
    description=(
        "One file or several in fields named `file`, of at most 50 MB each: all are stored, or none."
        " The type is told by the extension and checked against the content. One file is answered with"
        " its record, several with a list."
    ),
    status_code=201,
    responses={201: answer("What was stored.", File | UploadedFiles, location=True)},
)
async def upload_files(
    request: Request,
    caller: Writer,
    body: Annotated[UploadStream, Depends(UploadBody())],
    transfers: TransferProxyDep,
) -> Response:
    reply = await transfers.upload(request, caller, body, "ingestion", "/internal/files")
    record = orjson.loads(reply)
    return created(reply, f"/files/{record['id']}/" if "id" in record else None)


@router.post(
    "/bulk/",
    summary="Change or delete many files",
    description=(
        "`delete`; `update_tags`, which replaces them by `parameters.tags`; `change_status` to"
        " `parameters.status`, where inactive files are left out of retrieval. Each file on its own."
    ),
    responses={200: answer("What became of each file.", BulkReply)},
)
async def change_files(
    _: Writer,
    body: Annotated[BulkBody, Depends(ParsedBody(BulkBody, examples.BULK))],
    write: IdempotentWrite,
    use: UseCasesDep,
) -> Response:
    tags, status = body.parameters.tags, body.parameters.status
    command = ChangeFiles(operation=body.operation, file_ids=body.file_ids, tags=tags, status=status)
    return json_answer(results_in(await use.commands.run(write, command)))


@router.delete(
    "/{id:name}/",
    summary="Delete a file",
    description="Also takes it out of its collections and out of what agents find.",
    status_code=204,
    responses={204: answer("The file is gone."), **errors(404)},
)
async def delete_file(id: str, _: Writer, write: IdempotentWrite, use: UseCasesDep) -> Response:
    file_id = id_of(id, "file")
    await use.commands.run(write, DeleteFile(file_id=file_id), subject=file_id)
    return Response(status_code=204)
