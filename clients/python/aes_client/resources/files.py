"""Files: documents of the company."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aes_client.errors import ApiError
from aes_client.flows import Emit, Emitting, Flow, Together, batches
from aes_client.models import BulkReply, File, FileStatus, FileText
from aes_client.requests import Content, Request, Upload, content, given, nothing, one, path_of
from aes_client.resource import R, Resource, iteration, operation
from aes_client.resources.downloads import TRANSFER_SECONDS, saved

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from aes_client import params


@dataclass(frozen=True)
class UploadProgress:
    """One file of many: its record, or why the service does not take it, or why it cannot be read."""

    path: str
    file: File | None
    error: ApiError | OSError | None
    done: int
    total: int


class Files(Resource[R]):
    """``client.files``."""

    @operation
    def upload(self, file: Content, *, name: str | None = None, idempotency_key: str | None = None) -> Request[File]:
        """Uploads a file, given by its path, its bytes, or open, of at most 50 MB."""
        return _upload(file, name).with_key(idempotency_key)

    @iteration
    def upload_many(self, paths: Iterable[str | os.PathLike[str]], *, at_once: int = 4) -> Emitting[UploadProgress]:
        """Uploads files, several at once, and yields what became of each, in their order.

        A file that the service refuses, or that cannot be read, stops no other. Raises ``ConnectionFailed``, and other
        errors that would meet every file.
        """
        all_paths = [os.fspath(path) for path in paths]
        done = 0
        for batch in batches(all_paths, at_once):
            outcomes = yield Together([self._send(_upload(path, None)) for path in batch])
            for path, outcome in zip(batch, outcomes, strict=True):
                done += 1
                failed = isinstance(outcome, BaseException)
                if failed and not _concerns_one_file(outcome):
                    raise outcome
                file, error = (None, outcome) if failed else (outcome, None)
                yield Emit(UploadProgress(path, file, error, done, len(all_paths)))

    @iteration
    def list(
        self,
        *,
        status: FileStatus | None = None,
        tag: str | None = None,
        collection_id: str | None = None,
        name: str | None = None,
    ) -> Emitting[File]:
        """Yields files, newest first; with ``name`` those that have it in theirs."""
        query = given(status=status, tag=tag, collection_id=collection_id, name=name)
        yield from self._pages("/files/", "files", File, query)

    @operation
    def get(self, file_id: str) -> Request[File]:
        return Request("GET", path_of("/files/{file}/", file=file_id), one(File))

    @operation
    def download(self, file_id: str) -> Request[bytes]:
        return Request("GET", path_of("/files/{file}/download/", file=file_id), content, timeout=TRANSFER_SECONDS)

    @operation
    def save(self, file_id: str, path: str | os.PathLike[str]) -> Flow[int]:
        """Downloads a file, which is there once it is whole; returns its bytes."""
        return saved(Request("GET", path_of("/files/{file}/download/", file=file_id), content), path, self._policy)

    @operation
    def text(self, file_id: str, *, offset: int = 0, limit: int = 100_000) -> Request[FileText]:
        """Returns a part of the text that was read from a file, in characters."""
        query = {"offset": offset, "limit": limit}
        return Request("GET", path_of("/files/{file}/text/", file=file_id), one(FileText), query=query)

    @operation
    def delete(self, file_id: str) -> Request[None]:
        """Deletes a file, and takes it out of its collections and of what agents find."""
        return Request("DELETE", path_of("/files/{file}/", file=file_id), nothing)

    @operation
    def bulk(self, **change: Unpack[params.BulkBody]) -> Request[BulkReply]:
        """Changes or deletes many files, each on its own."""
        return Request("POST", "/files/bulk/", one(BulkReply), body=dict(change))


def _concerns_one_file(problem: BaseException) -> bool:
    if isinstance(problem, ApiError):
        return problem.status in (409, 413, 415, 422)
    return isinstance(problem, OSError)


def _upload(file: Content, name: str | None) -> Request[File]:
    return Request("POST", "/files/", one(File), upload=Upload(file, name), timeout=TRANSFER_SECONDS)
