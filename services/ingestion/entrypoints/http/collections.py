"""Reads of collections over the internal API; the replies are what the public API answers."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from libs.contracts.api.files import AvailableCollections, Collection, CollectionPage, FilePage
from libs.contracts.identity import Identity
from libs.service_defaults import caller
from services.ingestion.use_cases.read_collections import CollectionReading
from services.ingestion.use_cases.read_files import FileReading

Caller = Annotated[Identity, Depends(caller)]
Limit = Annotated[int, Query(ge=1, le=200)]
Offset = Annotated[int, Query(ge=0, le=2**31)]


def collections_router(reading: CollectionReading, files: FileReading) -> APIRouter:
    router = APIRouter()

    @router.get("/internal/collections")
    async def list_collections(who: Caller, limit: Limit = 50, offset: Offset = 0) -> CollectionPage:
        return await reading.page(who, limit=limit, offset=offset)

    @router.get("/internal/collections/{collection_id}")
    async def get_collection(collection_id: str, who: Caller) -> Collection:
        return await reading.one(who, collection_id)

    @router.get("/internal/collections/{collection_id}/files")
    async def list_collection_files(collection_id: str, who: Caller, limit: Limit = 50, offset: Offset = 0) -> FilePage:
        return await files.of_collection(who, collection_id, limit=limit, offset=offset)

    @router.get("/internal/knowledge-bases/available-collections")
    async def available_collections(who: Caller) -> AvailableCollections:
        return await reading.available(who)

    return router
