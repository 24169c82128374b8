"""Read files of a company: their records and their bytes."""

from libs.contracts.api.files import File, FilePage
from libs.contracts.identity import Identity
from libs.objects import ObjectMissing, ObjectStore, Pieces
from services.ingestion.domain.collections import CollectionNotFound
from services.ingestion.domain.files import FileNotFound, StoredFile, original_key
from services.ingestion.domain.ports.files import CollectionReader, FileFilter, FileReader


class FileReading:
    def __init__(self, files: FileReader, collections: CollectionReader, store: ObjectStore) -> None:
        self._files = files
        self._collections = collections
        self._store = store

    async def page(self, caller: Identity, which: FileFilter, *, limit: int, offset: int) -> FilePage:
        found, total = await self._files.page(caller.company_id, which, limit=limit, offset=offset)
        return FilePage(files=[file.public() for file in found], total=total, has_more=offset + len(found) < total)

    async def of_collection(self, caller: Identity, collection_id: str, *, limit: int, offset: int) -> FilePage:
        """Raises ``CollectionNotFound``."""
        if await self._collections.get(caller.company_id, collection_id) is None:
            raise CollectionNotFound()
        return await self.page(caller, FileFilter(collection_id=collection_id), limit=limit, offset=offset)

    async def one(self, caller: Identity, file_id: str) -> File:
        return (await self.stored(caller, file_id)).public()

    async def stored(self, caller: Identity, file_id: str) -> StoredFile:
        """Raises ``FileNotFound``."""
        file = await self._files.get(caller.company_id, file_id)
        if file is None:
            raise FileNotFound()
        return file

    async def content(self, file: StoredFile, *, start: int = 0, length: int | None = None) -> Pieces:
        """Bytes of the file; the caller closes what is returned. Raises ``FileNotFound``."""
        try:
            return await self._store.open(original_key(file.blob_id), start=start, length=length)
        except ObjectMissing:
            raise FileNotFound() from None
