"""``/files/…``: documents of the company."""

from typing import Final

import orjson
from pydantic import TypeAdapter

from libs.contracts.api.files import BulkBody, BulkReply, File, FilePage, UploadedFiles
from libs.contracts.commands.ingestion import ChangeFiles, DeleteFile
from libs.contracts.identity import Scope
from services.gateway.domain.outcomes import results_in
from services.gateway.entrypoints.http import examples
from services.gateway.entrypoints.http.forwarding import Forwarding, id_in
from services.gateway.entrypoints.http.messages import Passage, Reply, Request
from services.gateway.entrypoints.http.operations import Answer, Body, Operation, QueryParameter
from services.gateway.entrypoints.http.uploads import TransferProxy, created
from services.gateway.use_cases.commands.command_dispatcher import CommandDispatcher

_TAG: Final = "Files"
_FILTERS: Final = (
    QueryParameter(
        name="status",
        description="Only files in this status.",
        schema={"type": "string", "enum": ["active", "inactive"]},
    ),
    QueryParameter(name="tag", description="Only files with this tag."),
    QueryParameter(name="collection_id", description="Only files of this collection."),
    QueryParameter(name="name", description="Only files with this in their name, in any case."),
)


class Files:
    def __init__(self, commands: CommandDispatcher, forward: Forwarding, passing: TransferProxy) -> None:
        self._commands = commands
        self._forward = forward
        self._passing = passing

    async def upload(self, request: Request) -> Reply:
        reply = await self._passing.upload(request, "ingestion", "/internal/files")
        record = orjson.loads(reply)
        return created(reply, f"/api/v1/files/{record['id']}/" if "id" in record else None)

    async def list(self, request: Request) -> Reply:
        return await self._forward.page(request, "ingestion", "/internal/files", _FILTERS)

    async def get(self, request: Request) -> Reply:
        file_id = id_in(request, "id", "file")
        return await self._forward.get(request, "ingestion", f"/internal/files/{file_id}")

    async def download(self, request: Request) -> Passage:
        file_id = id_in(request, "id", "file")
        return self._passing.download(request, "ingestion", f"/internal/files/{file_id}/download")

    async def delete(self, request: Request) -> Reply:
        file_id = id_in(request, "id", "file")
        await self._commands.run(request.write(), DeleteFile(file_id=file_id), subject=file_id)
        return Reply(204)

    async def bulk(self, request: Request) -> Reply:
        body: BulkBody = request.body
        tags, status = body.parameters.tags, body.parameters.status
        command = ChangeFiles(operation=body.operation, file_ids=body.file_ids, tags=tags, status=status)
        return Reply(200, results_in(await self._commands.run(request.write(), command)))

    def operations(self) -> tuple[Operation, ...]:
        return (*self._reads(), *self._writes())

    def _reads(self) -> tuple[Operation, ...]:
        return (
            Operation(
                method="GET",
                path="/files/",
                name="list_files",
                summary="List files",
                tag=_TAG,
                handler=self.list,
                scope=Scope.FILES_READ,
                paged=True,
                query=_FILTERS,
                answers={200: Answer(description="Files, newest first.", model=FilePage)},
                errors=(422,),
            ),
            Operation(
                method="GET",
                path="/files/{id}/",
                name="get_file",
                summary="Get a file's record",
                tag=_TAG,
                handler=self.get,
                scope=Scope.FILES_READ,
                answers={200: Answer(description="The record.", model=File)},
                errors=(404,),
            ),
            Operation(
                method="GET",
                path="/files/{id}/download/",
                name="download_file",
                summary="Download a file",
                description="Takes `Range` and `If-None-Match`; `ETag` names the content.",
                tag=_TAG,
                handler=self.download,
                scope=Scope.FILES_READ,
                answers={
                    200: Answer(description="The file's bytes.", is_file=True),
                    206: Answer(description="The part of them that was asked for.", is_file=True),
                    304: Answer(description="You have them already."),
                    416: Answer(description="The file is not as long as that."),
                },
                errors=(404,),
            ),
        )

    def _writes(self) -> tuple[Operation, ...]:
        return (
            Operation(
                method="POST",
                path="/files/",
                name="upload_files",
                summary="Upload files",
                description=(
                    "One file or several in fields named `file`, of at most 50 MB each: all are stored, or none."
                    " The type is told by the extension and checked against the content. One file is answered with"
                    " its record, several with a list."
                ),
                tag=_TAG,
                handler=self.upload,
                scope=Scope.FILES_WRITE,
                writes=True,
                uploads=True,
                answers={
                    201: Answer(
                        description="What was stored.",
                        model=TypeAdapter(File | UploadedFiles),
                        headers=("Location",),
                    )
                },
            ),
            Operation(
                method="POST",
                path="/files/bulk/",
                name="change_files",
                summary="Change or delete many files",
                description=(
                    "`delete`; `update_tags`, which replaces them by `parameters.tags`; `change_status` to"
                    " `parameters.status`, where inactive files are left out of retrieval. Each file on its own."
                ),
                tag=_TAG,
                handler=self.bulk,
                scope=Scope.FILES_WRITE,
                writes=True,
                body=Body(model=BulkBody, examples=examples.BULK),
                answers={200: Answer(description="What became of each file.", model=BulkReply)},
            ),
            Operation(
                method="DELETE",
                path="/files/{id}/",
                name="delete_file",
                summary="Delete a file",
                description="Also takes it out of its collections and out of what agents find.",
                tag=_TAG,
                handler=self.delete,
                scope=Scope.FILES_WRITE,
                writes=True,
                answers={204: Answer(description="The file is gone.")},
                errors=(404,),
            ),
        )
