"""Routes and command handlers of collections."""

from fastapi import APIRouter, FastAPI

from libs.contracts.resources.collections import (
    AddCollectionFiles,
    AvailableCollections,
    Collection,
    CollectionPage,
    CreateCollection,
    DeleteCollection,
    RemoveCollectionFile,
    UpdateCollection,
)
from libs.contracts.resources.files import FilePage
from libs.eventing import CommandRouter
from libs.service_defaults import Caller, Cursor, Limit, Offset
from services.ingestion.adapters.postgres.collections import PostgresCollectionReader
from services.ingestion.adapters.postgres.files import PostgresFileReader
from services.ingestion.domain.files import FileFilter
from services.ingestion.entrypoints.resources.files import file_page
from services.ingestion.use_cases.collections import Collections


def serve_collections(
    commands: CommandRouter, http: FastAPI, collections: PostgresCollectionReader, files: PostgresFileReader
) -> None:
    changes = Collections()
    commands.handle(CreateCollection, changes.create)
    commands.handle(UpdateCollection, changes.update)
    commands.handle(DeleteCollection, changes.delete)
    commands.handle(AddCollectionFiles, changes.add_files)
    commands.handle(RemoveCollectionFile, changes.remove_file)
    http.include_router(_reads(collections, files))


def _reads(collections: PostgresCollectionReader, files: PostgresFileReader) -> APIRouter:
    router = APIRouter()

    @router.get("/internal/collections")
    async def list_collections(
        caller: Caller, limit: Limit = 50, offset: Offset = 0, cursor: Cursor = None
    ) -> CollectionPage:
        page = await collections.page(caller.company_id, limit=limit, offset=offset, cursor=cursor)
        return CollectionPage(collections=[each.public() for each in page.items], **page.facts)

    @router.get("/internal/collections/{collection_id}")
    async def get_collection(collection_id: str, caller: Caller) -> Collection:
        return (await collections.get(caller.company_id, collection_id)).public()

    @router.get("/internal/collections/{collection_id}/files")
    async def list_collection_files(
        collection_id: str, caller: Caller, limit: Limit = 50, offset: Offset = 0, cursor: Cursor = None
    ) -> FilePage:
        await collections.get(caller.company_id, collection_id)
        of_collection = FileFilter(collection_id=collection_id)
        return await file_page(files, caller, of_collection, limit=limit, offset=offset, cursor=cursor)

    @router.get("/internal/knowledge-bases/available-collections")
    async def available_collections(caller: Caller) -> AvailableCollections:
        """Lists the collections that a knowledge base can contain."""
        found = [each.available() for each in await collections.all(caller.company_id)]
        return AvailableCollections(success=True, collections=found, count=len(found))

    return router
