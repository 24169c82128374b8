"""Serves ``/collections/…``: groups of files."""

from typing import Annotated

from fastapi import Depends, Security
from starlette.responses import Response

from libs.contracts.identifiers import id_of
from libs.contracts.identity import Scope
from libs.contracts.resources.collections import (
    AddCollectionFiles,
    Collection,
    CollectionFilesBody,
    CollectionFilesReply,
    CollectionPage,
    CreateCollection,
    CreateCollectionBody,
    DeleteCollection,
    RemoveCollectionFile,
    UpdateCollection,
    UpdateCollectionBody,
)
from libs.contracts.resources.files import FilePage
from services.gateway.domain.accounts import Principal
from services.gateway.entrypoints.door.answers import json_answer, rendered, results_in
from services.gateway.entrypoints.door.application import Submit, Upstream
from services.gateway.entrypoints.door.bodies import ParsedBody
from services.gateway.entrypoints.door.callers import by_api_key
from services.gateway.entrypoints.door.queries import Page
from services.gateway.entrypoints.door.routes import answer, errors, public_router

router = public_router("/collections", "Files")
Reader = Annotated[Principal, Security(by_api_key, scopes=[Scope.FILES_READ])]
Writer = Annotated[Principal, Security(by_api_key, scopes=[Scope.FILES_WRITE])]
_BASE = "/internal/collections"
NewCollection = Annotated[CreateCollectionBody, Depends(ParsedBody(CreateCollectionBody))]
CollectionChanges = Annotated[UpdateCollectionBody, Depends(ParsedBody(UpdateCollectionBody))]
AddedFiles = Annotated[CollectionFilesBody, Depends(ParsedBody(CollectionFilesBody))]


@router.get(
    "/",
    operation_id="collections.list",
    summary="List collections",
    responses={200: answer("Collections, newest first.", CollectionPage)},
)
async def list_collections(caller: Reader, page: Page, upstream: Upstream) -> Response:
    return await upstream.get(caller, "ingestion", _BASE, page.params())


@router.get(
    "/{collection_id}/",
    operation_id="collections.get",
    summary="Get a collection",
    description="`status` and `progress` describe the parsing of the collection's files.",
    responses={200: answer("The collection.", Collection), **errors(404)},
)
async def get_collection(collection_id: str, caller: Reader, upstream: Upstream) -> Response:
    return await upstream.get(caller, "ingestion", f"{_BASE}/{id_of(collection_id, 'collection')}")


@router.get(
    "/{collection_id}/files/",
    operation_id="collections.files",
    summary="List the files of a collection",
    responses={200: answer("Files, newest first.", FilePage), **errors(404)},
)
async def list_collection_files(collection_id: str, caller: Reader, page: Page, upstream: Upstream) -> Response:
    return await upstream.get(caller, "ingestion", f"{_BASE}/{id_of(collection_id, 'collection')}/files", page.params())


@router.post(
    "/",
    operation_id="collections.create",
    summary="Create a collection",
    status_code=201,
    responses={201: answer("The collection.", Collection, location=True)},
)
async def create_collection(_: Writer, body: NewCollection, submit: Submit) -> Response:
    made = await submit.new(
        CreateCollection,
        lambda new_id: CreateCollection(collection_id=new_id, name=body.name, description=body.description),
    )
    return rendered(made, "collection", location="/collections/{id}/")


@router.patch(
    "/{collection_id}/",
    operation_id="collections.update",
    summary="Update a collection",
    responses={200: answer("The updated collection.", Collection), **errors(404)},
)
async def update_collection(collection_id: str, _: Writer, body: CollectionChanges, submit: Submit) -> Response:
    collection_id = id_of(collection_id, "collection")
    command = UpdateCollection(collection_id=collection_id, name=body.name, description=body.description)
    return rendered(await submit(command), "collection")


@router.delete(
    "/{collection_id}/",
    operation_id="collections.delete",
    summary="Delete a collection",
    description="The files themselves remain.",
    status_code=204,
    responses={204: answer("The collection was deleted."), **errors(404)},
)
async def delete_collection(collection_id: str, _: Writer, submit: Submit) -> Response:
    return rendered(await submit(DeleteCollection(collection_id=id_of(collection_id, "collection"))))


@router.post(
    "/{collection_id}/files/",
    operation_id="collections.add_files",
    summary="Add files to a collection",
    description="Each file is added independently. Files already in the collection return `already_added`.",
    responses={200: answer("The result for each file.", CollectionFilesReply), **errors(404)},
)
async def add_collection_files(collection_id: str, _: Writer, body: AddedFiles, submit: Submit) -> Response:
    collection_id = id_of(collection_id, "collection")
    command = AddCollectionFiles(collection_id=collection_id, file_ids=body.file_ids)
    return json_answer(results_in(await submit(command)))


@router.delete(
    "/{collection_id}/files/{file_id}/",
    operation_id="collections.remove_file",
    summary="Remove a file from a collection",
    description="The file itself remains.",
    status_code=204,
    responses={204: answer("The file was removed."), **errors(404)},
)
async def remove_collection_file(collection_id: str, file_id: str, _: Writer, submit: Submit) -> Response:
    collection_id, file_id = id_of(collection_id, "collection"), id_of(file_id, "file")
    return rendered(await submit(RemoveCollectionFile(collection_id=collection_id, file_id=file_id)))
