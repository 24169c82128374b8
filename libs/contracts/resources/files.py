"""Files that a company has uploaded or copied from sessions."""

from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BaseModel, Field, model_validator

from libs.contracts.errors import ErrorInfo
from libs.contracts.messages import Command, Event
from libs.contracts.models import Id, StrictModel
from libs.contracts.pages import ListPage
from libs.contracts.timestamps import Timestamp

EXAMPLE_ENVELOPE: Final = {"owner_id": None}

FileStatus = Literal["active", "inactive"]
BulkOperation = Literal["delete", "update_tags", "change_status"]
FileIds = Annotated[list[Id], Field(min_length=1, max_length=1000)]
Tag = Annotated[str, Field(min_length=1, max_length=100)]


_NEW_FILE: Final[dict[str, Any]] = {
    "id": "01980f4f-6f42-727a-9394-8192a3b4c5da",
    "name": "passenger-handbook.md",
    "content_type": "text/markdown",
    "size": 18423,
    "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "status": "active",
    "tags": [],
    "collection_ids": [],
    "created_at": "2026-05-04T08:14:02.114870Z",
    "updated_at": "2026-05-04T08:14:02.114870Z",
}


class File(BaseModel):
    """One of the company's files. ``size`` is in bytes.

    ``sha256`` identifies the content. Within a company, files with the same content share one stored copy.
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "new": _NEW_FILE,
        "with a tag, in a collection": {
            **_NEW_FILE,
            "tags": ["handbook"],
            "collection_ids": ["01980f4f-7a53-738b-a4a5-92a3b4c5d6eb"],
            "updated_at": "2026-05-04T08:14:31.126107Z",
        },
    }

    id: str
    name: str
    content_type: str
    size: int
    sha256: str
    status: FileStatus
    tags: list[str]
    collection_ids: list[str]
    created_at: Timestamp
    updated_at: Timestamp


class FilePage(ListPage):
    files: list[File]


class FileText(BaseModel):
    """A part of a file's extracted text, from ``offset``. ``characters`` is the length of the whole text."""

    file_id: str
    text: str
    offset: int
    characters: int


class UploadedFiles(BaseModel):
    """The response to an upload of several files."""

    success: bool
    files: list[File]


class BulkParameters(StrictModel):
    """Parameters of a bulk operation: ``tags`` for ``update_tags``, ``status`` for ``change_status``.

    ``tags`` replaces all of the files' tags.
    """

    tags: list[Tag] | None = Field(default=None, max_length=100)
    status: FileStatus | None = None


class BulkBody(StrictModel):
    """The body of ``POST /files/bulk/``: one operation for many files."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "new tags": {
            "operation": "update_tags",
            "file_ids": ["01980f4f-6f42-727a-9394-8192a3b4c5da"],
            "parameters": {"tags": ["handbook"]},
        },
        "exclude from retrieval": {
            "operation": "change_status",
            "file_ids": ["01980f4f-6f42-727a-9394-8192a3b4c5da"],
            "parameters": {"status": "inactive"},
        },
        "delete": {"operation": "delete", "file_ids": ["01980f4f-6f42-727a-9394-8192a3b4c5da"]},
    }

    operation: BulkOperation
    file_ids: FileIds
    parameters: BulkParameters = BulkParameters()

    @model_validator(mode="after")
    def _parameters_fit(self) -> "BulkBody":
        needed = {"update_tags": "tags", "change_status": "status"}.get(self.operation)
        given = self.parameters.model_dump(exclude_none=True)
        if needed and needed not in given:
            raise ValueError(f"{self.operation} needs parameters.{needed}")
        unused = sorted(given.keys() - {needed})
        if unused:
            raise ValueError(f"{self.operation} doesn't accept parameters.{unused[0]}")
        return self


class FileResult(BaseModel):
    """The result for one file. ``error`` is set only if ``status`` is ``failed``."""

    file_id: str
    status: str
    error: ErrorInfo | None = None


class BulkReply(BaseModel):
    """The response to a bulk operation. ``processed`` counts successes; ``success`` is false if every file failed."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "one of two files": {
            "success": True,
            "processed": 1,
            "failed": 1,
            "results": [
                {"file_id": "01980f4f-6f42-727a-9394-8192a3b4c5da", "status": "success"},
                {
                    "file_id": "01980f4f-6f42-727a-9394-8192a3b4c5db",
                    "status": "failed",
                    "error": {"type": "not_found_error", "message": "There is no file with this ID."},
                },
            ],
        }
    }

    success: bool
    processed: int
    failed: int
    results: list[FileResult]


class FileUploaded(Event, type="aes.ingestion.file.uploaded.v1"):
    """A file was uploaded."""

    file: File


class FileUpdated(Event, type="aes.ingestion.file.updated.v1"):
    """A file's tags or status changed."""

    EXAMPLES: ClassVar[dict[str, Any]] = {"a new tag": {"file": File.EXAMPLES["with a tag, in a collection"]}}

    file: File


class FileDeleted(Event, type="aes.ingestion.file.deleted.v1"):
    """A file was deleted."""

    file_id: str


class FilesChanged(Event, type="aes.ingestion.file.bulk_changed.v1"):
    """A bulk operation finished. ``reply`` has the result for each file."""

    EXAMPLES: ClassVar[dict[str, Any]] = {"new tags": {"operation": "update_tags"}}

    operation: str
    reply: BulkReply


class DeleteFile(Command, type="aes.ingestion.delete_file.v1", outcomes=(FileDeleted,), subject="file_id"):
    """Delete a file."""

    file_id: str


class CopyArtifact(Command, type="aes.ingestion.copy_artifact.v1", outcomes=(FileUploaded,), subject="file_id"):
    """Copy an artifact to a new file with the ID ``file_id``."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "a table": {
            "artifact_id": "01980f52-1a2b-7c3d-8e4f-5a6b7c8d9e0f",
            "session_id": "01980f52-0a31-7c25-9d3e-2b3c4d5e6f05",
            "name": "timetable.csv",
            "content_type": "text/csv",
        }
    }

    file_id: str
    artifact_id: str
    session_id: str
    name: str
    content_type: str


class ChangeFiles(Command, type="aes.ingestion.change_files.v1", outcomes=(FilesChanged,)):
    """Apply an operation to many files. Each file succeeds or fails independently."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "new tags": {
            "operation": "update_tags",
            "file_ids": ["01980f4f-6f42-727a-9394-8192a3b4c5da", "01980f4f-6f42-727a-9394-8192a3b4c5db"],
            "tags": ["handbook"],
        }
    }

    operation: BulkOperation
    file_ids: list[str]
    tags: list[str] | None = None
    status: FileStatus | None = None
