"""``/collections/…``: groups of files."""

from typing import Final

import orjson

from libs.contracts.api.files import (
    Collection,
    CollectionFilesBody,
    CollectionFilesReply,
    CollectionPage,
    CreateCollectionBody,
    FilePage,
    UpdateCollectionBody,
)
from libs.contracts.commands.ingestion import (
    AddCollectionFiles,
    CreateCollection,
    DeleteCollection,
    RemoveCollectionFile,
    UpdateCollection,
)
from libs.contracts.identity import Scope
from services.gateway.domain.outcomes import entity_in, results_in
from services.gateway.entrypoints.http import examples
from services.gateway.entrypoints.http.forwarding import Forwarding, id_in
from services.gateway.entrypoints.http.messages import Reply, Request
from services.gateway.entrypoints.http.operations import Answer, Body, Operation
from services.gateway.entrypoints.http.uploads import created
from services.gateway.use_cases.commands.command_dispatcher import CommandDispatcher

_TAG: Final = "Files"


class Collections:
    def __init__(self, commands: CommandDispatcher, forward: Forwarding) -> None:
        self._commands = commands
        self._forward = forward

    async def list(self, request: Request) -> Reply:
        return await self._forward.page(request, "ingestion", "/internal/collections")

    async def get(self, request: Request) -> Reply:
        collection_id = id_in(request, "collection_id", "collection")
        return await self._forward.get(request, "ingestion", f"/internal/collections/{collection_id}")

    async def files(self, request: Request) -> Reply:
        collection_id = id_in(request, "collection_id", "collection")
        return await self._forward.page(request, "ingestion", f"/internal/collections/{collection_id}/files")

    async def create(self, request: Request) -> Reply:
        body: CreateCollectionBody = request.body
        event = await self._commands.create(
            request.write(),
            CreateCollection,
            lambda new_id: CreateCollection(collection_id=new_id, name=body.name, description=body.description),
        )
        collection = entity_in(event, "collection")
        return created(collection, f"/api/v1/collections/{orjson.loads(collection)['id']}/")

    async def update(self, request: Request) -> Reply:
        body: UpdateCollectionBody = request.body
        collection_id = id_in(request, "collection_id", "collection")
        command = UpdateCollection(collection_id=collection_id, name=body.name, description=body.description)
        event = await self._commands.run(request.write(), command, subject=collection_id)
        return Reply(200, entity_in(event, "collection"))

    async def delete(self, request: Request) -> Reply:
        collection_id = id_in(request, "collection_id", "collection")
        await self._commands.run(request.write(), DeleteCollection(collection_id=collection_id), subject=collection_id)
        return Reply(204)

    async def add_files(self, request: Request) -> Reply:
        body: CollectionFilesBody = request.body
        collection_id = id_in(request, "collection_id", "collection")
        command = AddCollectionFiles(collection_id=collection_id, file_ids=body.file_ids)
        return Reply(200, results_in(await self._commands.run(request.write(), command, subject=collection_id)))

    async def remove_file(self, request: Request) -> Reply:
        collection_id, file_id = id_in(request, "collection_id", "collection"), id_in(request, "file_id", "file")
        command = RemoveCollectionFile(collection_id=collection_id, file_id=file_id)
        await self._commands.run(request.write(), command, subject=collection_id)
        return Reply(204)

    def operations(self) -> tuple[Operation, ...]:
        return (*self._reads(), *self._writes(), *self._membership())

    def _reads(self) -> tuple[Operation, ...]:
        return (
            Operation(
                method="GET",
                path="/collections/",
                name="list_collections",
                summary="List collections",
                tag=_TAG,
                handler=self.list,
                scope=Scope.FILES_READ,
                paged=True,
                answers={200: Answer(description="Collections, newest first.", model=CollectionPage)},
                errors=(422,),
            ),
            Operation(
                method="GET",
                path="/collections/{collection_id}/",
                name="get_collection",
                summary="Get a collection",
                description="`status` and `progress` follow the parsing of its files.",
                tag=_TAG,
                handler=self.get,
                scope=Scope.FILES_READ,
                answers={200: Answer(description="The collection.", model=Collection)},
                errors=(404,),
            ),
            Operation(
                method="GET",
                path="/collections/{collection_id}/files/",
                name="list_collection_files",
                summary="List the files of a collection",
                tag=_TAG,
                handler=self.files,
                scope=Scope.FILES_READ,
                paged=True,
                answers={200: Answer(description="Files, newest first.", model=FilePage)},
                errors=(404, 422),
            ),
        )

    def _writes(self) -> tuple[Operation, ...]:
        return (
            Operation(
                method="POST",
                path="/collections/",
                name="create_collection",
                summary="Make a collection",
                tag=_TAG,
                handler=self.create,
                scope=Scope.FILES_WRITE,
                writes=True,
                body=Body(model=CreateCollectionBody, examples=examples.COLLECTIONS),
                answers={201: Answer(description="The collection.", model=Collection, headers=("Location",))},
            ),
            Operation(
                method="PATCH",
                path="/collections/{collection_id}/",
                name="update_collection",
                summary="Rename or describe a collection",
                tag=_TAG,
                handler=self.update,
                scope=Scope.FILES_WRITE,
                writes=True,
                body=Body(model=UpdateCollectionBody, examples=examples.COLLECTION_CHANGES),
                answers={200: Answer(description="The collection as it is now.", model=Collection)},
                errors=(404,),
            ),
            Operation(
                method="DELETE",
                path="/collections/{collection_id}/",
                name="delete_collection",
                summary="Delete a collection",
                description="Its files remain.",
                tag=_TAG,
                handler=self.delete,
                scope=Scope.FILES_WRITE,
                writes=True,
                answers={204: Answer(description="The collection is gone.")},
                errors=(404,),
            ),
        )

    def _membership(self) -> tuple[Operation, ...]:
        return (
            Operation(
                method="POST",
                path="/collections/{collection_id}/files/",
                name="add_collection_files",
                summary="Add files to a collection",
                description="Each file on its own; one that is in it already is `already_added`.",
                tag=_TAG,
                handler=self.add_files,
                scope=Scope.FILES_WRITE,
                writes=True,
                body=Body(model=CollectionFilesBody, examples=examples.COLLECTION_FILES),
                answers={200: Answer(description="What became of each file.", model=CollectionFilesReply)},
                errors=(404,),
            ),
            Operation(
                method="DELETE",
                path="/collections/{collection_id}/files/{file_id}/",
                name="remove_collection_file",
                summary="Take a file out of a collection",
                description="The file itself remains.",
                tag=_TAG,
                handler=self.remove_file,
                scope=Scope.FILES_WRITE,
                writes=True,
                answers={204: Answer(description="The file is not in it any more.")},
                errors=(404,),
            ),
        )
