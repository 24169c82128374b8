"""Files and collections."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field, model_validator

from libs.contracts.api.agents import Name, StrictModel
from libs.contracts.api.pages import ListPage
from libs.contracts.errors import ErrorInfo
from libs.contracts.timestamps import Timestamp

FileStatus = Literal["active", "inactive"]
CollectionStatus = Literal["pending", "running", "completed", "failed"]
BulkOperation = Literal["delete", "update_tags", "change_status"]
Id = Annotated[str, Field(min_length=1, max_length=200)]
FileIds = Annotated[list[Id], Field(min_length=1, max_length=1000)]
Tag = Annotated[str, Field(min_length=1, max_length=100)]


class File(BaseModel):
    """A stored document of a company. ``size`` in bytes; ``sha256`` names the bytes, stored once per company."""

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
    """A part of the text that was read from a file: it begins at ``offset`` of ``characters``."""

    file_id: str
    text: str
    offset: int
    characters: int


class UploadedFiles(BaseModel):
    """The reply to an upload of several files."""

    success: bool
    files: list[File]


class BulkParameters(StrictModel):
    """``tags`` for ``update_tags`` (they replace), ``status`` for ``change_status``."""

    tags: list[Tag] | None = Field(default=None, max_length=100)
    status: FileStatus | None = None


class BulkBody(StrictModel):
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
            raise ValueError(f"{self.operation} takes no parameters.{unused[0]}")
        return self


class FileResult(BaseModel):
    """The result for one file of a bulk request; ``error`` when ``status`` is ``failed``."""

    file_id: str
    status: str
    error: ErrorInfo | None = None


class BulkReply(BaseModel):
    """``processed`` counts the successes; ``success`` is false only when there was none."""

    success: bool
    processed: int
    failed: int
    results: list[FileResult]


class CreateCollectionBody(StrictModel):
    name: Name
    description: str = Field(default="", max_length=10_000)


class UpdateCollectionBody(StrictModel):
    name: Name | None = None
    description: str | None = Field(default=None, max_length=10_000)


class Collection(BaseModel):
    """A group of files. ``status`` follows the parsing of its files; ``total_size`` in bytes."""

    id: str
    name: str
    description: str
    status: CollectionStatus
    progress: int
    data_source_count: int
    total_size: int
    created_at: Timestamp
    updated_at: Timestamp


class CollectionPage(ListPage):
    collections: list[Collection]


class CollectionFilesBody(StrictModel):
    file_ids: FileIds


class CollectionFilesReply(BaseModel):
    success: bool
    added: int
    failed: int
    results: list[FileResult]


class AvailableCollection(BaseModel):
    id: str
    name: str
    description: str
    created_at: Timestamp
    datasource_count: int


class AvailableCollections(BaseModel):
    success: bool
    collections: list[AvailableCollection]
    count: int
