"""Files of a company and their texts."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from libs.contracts.error_catalogue import FileErrorCode
from libs.contracts.errors import NotFound
from libs.contracts.resources.files import File, FileStatus


class FileNotFound(NotFound):
    """The file doesn't exist or belongs to another company."""

    def __init__(self) -> None:
        super().__init__("There is no file with this ID.")


@dataclass(frozen=True, slots=True)
class TextKey:
    """A blob and the content type that determines how it's parsed."""

    blob_id: str
    content_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file that isn't deleted. ``size`` is in bytes. ``collection_ids`` are in the order in which they were added."""

    id: str
    company_id: str
    blob_id: str
    name: str
    content_type: str
    size: int
    sha256: str
    status: FileStatus
    tags: tuple[str, ...]
    collection_ids: tuple[str, ...]
    created_at: datetime
    updated_at: datetime

    @property
    def text(self) -> TextKey:
        return TextKey(self.blob_id, self.content_type)

    def public(self) -> File:
        """Returns the public representation."""
        return File.model_validate(self, from_attributes=True)


@dataclass(frozen=True, slots=True)
class UnparsedText:
    """A text that no worker is parsing. ``name``: the name of any file with these bytes."""

    key: TextKey
    name: str
    company_id: str
    attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFilter:
    """A filter for files. Fields that are None don't filter.

    ``name`` matches part of the name, ignoring case. ``after`` is the file before the page.
    """

    status: FileStatus | None = None
    tag: str | None = None
    collection_id: str | None = None
    name: str | None = None
    after: str | None = None
    oldest_first: bool = False


@dataclass(frozen=True, slots=True)
class TextFailure:
    code: FileErrorCode
    message: str
    retryable: bool


@dataclass(frozen=True, slots=True)
class TextState:
    """State of a text. ``failure`` is set if it failed, ``characters`` if it was parsed."""

    state: Literal["pending", "running", "parsed", "failed"]
    attempts: int
    characters: int | None = None
    failure: TextFailure | None = None
