"""Ports of files, their texts and collections: the database."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from libs.contracts.api.files import FileStatus
from libs.contracts.api.pages import Page
from services.ingestion.domain.collections import StoredCollection
from services.ingestion.domain.files import StoredFile, TextKey
from services.ingestion.domain.parsing import Reason, Unparsable


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFilter:
    """None does not filter. ``name`` matches a part of the name, in any case; ``after`` is the file before the page."""

    status: FileStatus | None = None
    tag: str | None = None
    collection_id: str | None = None
    name: str | None = None
    after: str | None = None
    oldest_first: bool = False


class FileReader(Protocol):
    """Committed files. Deleted ones and those of other companies are not found."""

    async def get(self, company_id: str, file_id: str) -> StoredFile | None: ...

    async def page(
        self, company_id: str, which: FileFilter, *, limit: int, offset: int, cursor: str | None = None
    ) -> Page[StoredFile]:
        """Newest first unless told otherwise."""


class FileWriter(Protocol):
    """Changes of files inside one transaction, which the caller commits."""

    async def lock(self, company_id: str, file_ids: Sequence[str]) -> dict[str, StoredFile]:
        """Locks the files that exist until the end of the transaction."""

    async def set_tags(self, file_ids: Sequence[str], tags: Sequence[str]) -> None: ...

    async def set_status(self, file_ids: Sequence[str], status: FileStatus) -> None: ...

    async def delete(self, file_ids: Sequence[str], correlation_id: str) -> None:
        """Takes locked files out of collections and indexes, and drops their references to bytes."""


class CollectionReader(Protocol):
    """Committed collections with their content."""

    async def get(self, company_id: str, collection_id: str) -> StoredCollection | None: ...

    async def page(
        self, company_id: str, *, limit: int, offset: int, cursor: str | None = None
    ) -> Page[StoredCollection]:
        """Newest first."""

    async def all(self, company_id: str) -> list[StoredCollection]:
        """Every collection of the company, newest first."""


class CollectionWriter(Protocol):
    """Changes of collections inside one transaction, which the caller commits."""

    async def add(self, collection: StoredCollection, created_by: str, correlation_id: str) -> None: ...

    async def lock(self, company_id: str, collection_id: str) -> StoredCollection | None:
        """Locks the collection until the end of the transaction."""

    async def describe(self, collection_id: str, name: str, description: str) -> None: ...

    async def delete(self, collection_id: str) -> None: ...

    async def add_files(self, collection_id: str, file_ids: Sequence[str], correlation_id: str) -> set[str]:
        """Returns the files that were not in it before."""

    async def remove_file(self, collection_id: str, file_id: str, correlation_id: str) -> bool:
        """False when the file was not in it."""


@dataclass(frozen=True, slots=True)
class PendingUpdate:
    """A collection that differs from the last event about it."""

    collection: StoredCollection
    correlation_id: str


class CollectionChanges(Protocol):
    """Collections that changed because their files did."""

    async def changed_since(self, since: datetime | None) -> tuple[list[str], datetime]:
        """Collections whose files or texts changed since then (all when None), and the time for the next call."""


class CollectionPublisher(Protocol):
    """Inside one transaction, which the caller commits."""

    async def pending(self, collection_ids: Sequence[str]) -> list[PendingUpdate]:
        """Records the published state of these collections; returns those that differ from the last event.

        Collections that are locked by another transaction are left out.
        """


@dataclass(frozen=True, slots=True)
class TextFailure:
    code: Reason
    message: str
    retryable: bool


@dataclass(frozen=True, slots=True)
class TextState:
    """``failure`` is set when the state is ``failed``, ``characters`` when it is ``parsed``."""

    state: Literal["pending", "running", "parsed", "failed"]
    attempts: int
    characters: int | None = None
    failure: TextFailure | None = None


class Texts(Protocol):
    """States of parsed texts, from which statuses of collections follow. Each method is a transaction of its own.

    The text itself is in the object store, written before its state.
    """

    async def states(self, texts: Sequence[TextKey]) -> Mapping[TextKey, TextState]:
        """Known texts: one for each content type that the bytes were uploaded as."""

    async def claim(self, texts: Sequence[TextKey], *, seconds: float, again: bool = False) -> set[TextKey]:
        """Claims unleased texts that are not parsed yet.

        Failed ones only with ``again`` or when they are retryable.
        """

    async def renew(self, texts: Sequence[TextKey], *, seconds: float) -> None:
        """Renews the leases of texts being parsed by this process."""

    async def parsed(self, characters: Mapping[TextKey, int]) -> None:
        """Marks stored texts as parsed, with their numbers of characters."""

    async def failed(self, failures: Mapping[TextKey, Unparsable]) -> None: ...

    async def interrupted(self, text: TextKey) -> None:
        """Takes an attempt back that an outage ended. The lease stays, as the pause until the next one."""
