"""What files and collections need from the database."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from libs.contracts.api.files import FileStatus
from services.ingestion.domain.collections import StoredCollection
from services.ingestion.domain.files import StoredFile, TextKey
from services.ingestion.domain.parsing import Reason, Unparsable


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFilter:
    """Which files are listed; None takes all. ``name`` is a part of the name, in any case."""

    status: FileStatus | None = None
    tag: str | None = None
    collection_id: str | None = None
    name: str | None = None


class FileReader(Protocol):
    """Files as last committed; deleted ones and those of other companies are not there."""

    async def get(self, company_id: str, file_id: str) -> StoredFile | None: ...

    async def page(
        self, company_id: str, which: FileFilter, *, limit: int, offset: int
    ) -> tuple[list[StoredFile], int]:
        """A page, newest first, and how many there are in all."""
        ...


class FileWriter(Protocol):
    """Changes of files inside one transaction, which the caller commits."""

    async def lock(self, company_id: str, file_ids: Sequence[str]) -> dict[str, StoredFile]:
        """Those that exist, kept from every other writer until the end of the transaction."""
        ...

    async def set_tags(self, file_ids: Sequence[str], tags: Sequence[str]) -> None: ...

    async def set_status(self, file_ids: Sequence[str], status: FileStatus) -> None: ...

    async def delete(self, file_ids: Sequence[str], correlation_id: str) -> None:
        """Take locked files out of their collections and let go of their bytes."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFile:
    """An uploaded file whose bytes lie in the store under its own blob."""

    id: str
    blob_id: str
    name: str
    content_type: str
    size: int
    sha256: str


class Uploads(Protocol):
    """Bytes on their way in."""

    async def begin(self, company_id: str) -> str:
        """Announce bytes; returns the id of the blob that they will be."""
        ...

    async def abandon(self, blob_ids: Sequence[str]) -> Collection[str]:
        """Give up blobs that were announced; returns those that are given up, and not stored after all.

        Whatever lies under them is collected later.
        """
        ...


class UploadWriter(Protocol):
    """The end of an upload inside one transaction, which the caller commits."""

    async def earlier(self, company_id: str, user_id: str, key: str, content_hash: str) -> list[StoredFile] | None:
        """The files of an earlier upload with this idempotency key; None when this is the first.

        Waits for one that is about to end. Raises ``ValidationFailed`` when that one had other content.
        """
        ...

    async def complete(self, company_id: str, user_id: str, files: Sequence[NewFile]) -> list[StoredFile]:
        """Store the files in this order; one whose bytes the company has already gets the blob of those.

        Raises ``Conflict`` when an upload was given up meanwhile.
        """
        ...

    async def remember(self, company_id: str, user_id: str, key: str, file_ids: Sequence[str]) -> None:
        """Note which files the upload with this idempotency key made."""
        ...


class UnusedBlobs(Protocol):
    """Bytes that nothing refers to any more. Each method is a transaction of its own."""

    async def abandon_unused(self) -> int:
        """Give up uploads that have not ended for long, and bytes that no file has had for a day; returns how many."""
        ...

    async def abandoned(self, limit: int) -> list[str]:
        """Blobs that were given up long enough ago that nobody writes to them any more."""
        ...

    async def delete(self, blob_ids: Sequence[str]) -> None:
        """Their bytes are removed from the object store."""
        ...

    async def delete_upload_keys(self, days: int) -> int:
        """Idempotency keys of uploads that are older; returns how many there were."""
        ...


class CollectionReader(Protocol):
    """Collections as last committed, with what is in them."""

    async def get(self, company_id: str, collection_id: str) -> StoredCollection | None: ...

    async def page(self, company_id: str, *, limit: int, offset: int) -> tuple[list[StoredCollection], int]:
        """A page, newest first, and how many there are in all."""
        ...

    async def all(self, company_id: str) -> list[StoredCollection]:
        """Every collection of the company, newest first."""
        ...


class CollectionWriter(Protocol):
    """Changes of collections inside one transaction, which the caller commits."""

    async def add(self, collection: StoredCollection, created_by: str, correlation_id: str) -> None: ...

    async def lock(self, company_id: str, collection_id: str) -> StoredCollection | None:
        """The collection, kept from every other writer until the end of the transaction."""
        ...

    async def describe(self, collection_id: str, name: str, description: str) -> None: ...

    async def delete(self, collection_id: str) -> None: ...

    async def add_files(self, collection_id: str, file_ids: Sequence[str], correlation_id: str) -> set[str]:
        """Put files in; returns those that were not in it before."""
        ...

    async def remove_file(self, collection_id: str, file_id: str, correlation_id: str) -> bool:
        """False when it was not in it."""
        ...


@dataclass(frozen=True, slots=True)
class PendingUpdate:
    """A collection that is no longer what the last event about it told."""

    collection: StoredCollection
    correlation_id: str


class CollectionChanges(Protocol):
    """Which collections have changed by themselves."""

    async def changed_since(self, since: datetime | None) -> tuple[list[str], datetime]:
        """Those whose files or texts changed since then, and from when to ask the next time; all when None."""
        ...


class CollectionPublisher(Protocol):
    """Inside one transaction, which the caller commits."""

    async def pending(self, collection_ids: Sequence[str]) -> list[PendingUpdate]:
        """Note what these collections are now; returns those of which listeners know something else.

        Collections that somebody else is changing are left out.
        """
        ...


@dataclass(frozen=True, slots=True)
class TextFailure:
    code: Reason
    message: str
    retryable: bool


@dataclass(frozen=True, slots=True)
class TextState:
    """What became of a text. ``failure`` when the state is ``failed``; ``characters`` when it is ``parsed``."""

    state: Literal["pending", "running", "parsed", "failed"]
    attempts: int
    characters: int | None = None
    failure: TextFailure | None = None


class Texts(Protocol):
    """What became of the texts of files. Statuses of collections follow from it.

    Each method is a transaction of its own. The text itself lies in the object store and is written first.
    """

    async def states(self, texts: Sequence[TextKey]) -> Mapping[TextKey, TextState]:
        """Those that are known: there is one for each kind that the bytes were uploaded as."""
        ...

    async def claim(self, texts: Sequence[TextKey], *, seconds: float, again: bool = False) -> set[TextKey]:
        """Take texts to make for that long; returns those that nobody else is at and that are not parsed yet.

        Failed ones only when ``again`` or when another try may help.
        """
        ...

    async def renew(self, texts: Sequence[TextKey], *, seconds: float) -> None:
        """Take texts that are being made here for that much longer."""
        ...

    async def parsed(self, characters: Mapping[TextKey, int]) -> None:
        """They lie in the object store; numbers of characters."""
        ...

    async def failed(self, failures: Mapping[TextKey, Unparsable]) -> None: ...
