"""Collections: groups of files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from aes_client.flows import Emitting
from aes_client.models import Collection, CollectionFilesReply, File
from aes_client.requests import Request, nothing, one, path_of
from aes_client.resource import R, Resource, iteration, operation

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from aes_client import params


class Collections(Resource[R]):
    """``client.collections``."""

    @operation
    def create(self, **collection: Unpack[params.CreateCollectionBody]) -> Request[Collection]:
        return Request("POST", "/collections/", one(Collection), body=dict(collection))

    @operation
    def get(self, collection_id: str) -> Request[Collection]:
        return Request("GET", _path(collection_id), one(Collection))

    @iteration
    def list(self) -> Emitting[Collection]:
        """Yields collections, newest first."""
        yield from self._pages("/collections/", "collections", Collection, {})

    @operation
    def update(self, collection_id: str, **changes: Unpack[params.UpdateCollectionBody]) -> Request[Collection]:
        return Request("PATCH", _path(collection_id), one(Collection), body=dict(changes))

    @operation
    def delete(self, collection_id: str) -> Request[None]:
        """Deletes a collection. Its files remain."""
        return Request("DELETE", _path(collection_id), nothing)

    @iteration
    def files(self, collection_id: str) -> Emitting[File]:
        """Yields the files of a collection, newest first."""
        yield from self._pages(f"{_path(collection_id)}files/", "files", File, {})

    @operation
    def add_files(self, collection_id: str, file_ids: Sequence[str]) -> Request[CollectionFilesReply]:
        """Adds up to 1,000 files, each on its own."""
        body = {"file_ids": list(file_ids)}
        return Request("POST", f"{_path(collection_id)}files/", one(CollectionFilesReply), body=body)

    @operation
    def remove_file(self, collection_id: str, file_id: str) -> Request[None]:
        return Request("DELETE", _path(collection_id) + path_of("files/{file}/", file=file_id), nothing)


def _path(collection_id: str) -> str:
    return path_of("/collections/{collection}/", collection=collection_id)
