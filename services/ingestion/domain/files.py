"""A company's files and their texts."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from libs.contracts.errors import NotFound
from libs.contracts.resources.files import File, FileStatus


class FileNotFound(NotFound):
    """The file doesn't exist or belongs to another company."""

    def __init__(self) -> None:
        super().__init__("There is no file with this ID.")


@dataclass(frozen=True, slots=True)
class TextKey:
    """Identifies a text by its blob and by the content type, which determines how the blob is parsed."""

    blob_id: str
    content_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file that isn't deleted. ``size`` is in bytes.

    ``collection_ids`` begin with the collection that the file was added to first.
    """

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
        return File.model_validate(self, from_attributes=True)


@dataclass(frozen=True, slots=True)
class UnparsedText:
    """An unparsed text that no worker has claimed. ``name`` is the name of any file with these bytes."""

    key: TextKey
    name: str
    company_id: str
    attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFilter:
    """A filter for files. Fields that are None don't filter.

    ``name`` matches any part of a name, ignoring case. ``after`` is the ID of the last file before the page.
    """

    status: FileStatus | None = None
    tag: str | None = None
    collection_id: str | None = None
    name: str | None = None
    after: str | None = None
    oldest_first: bool = False


@dataclass(frozen=True, slots=True)
class TextState:
    """The state of a text. ``failure`` is the error message if parsing failed."""

    state: Literal["pending", "running", "parsed", "failed"]
    failure: str | None
