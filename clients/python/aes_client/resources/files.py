"""Files: a company's documents."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from aes_client import operations
from aes_client.errors import ApiError
from aes_client.flows import Emit, Emitting, Flow, Together, batches
from aes_client.models import File
from aes_client.requests import TRANSFER_SECONDS, Content, Request, Upload, content, one, path_of
from aes_client.resource import R, iteration, operation
from aes_client.resources.downloads import saved


@dataclass(frozen=True)
class UploadProgress:
    """The outcome of one file's upload: the stored file, or the error if it was rejected or couldn't be read.

    ``done`` counts the files processed so far.
    """

    path: str
    file: File | None
    error: ApiError | OSError | None
    done: int
    total: int


class Files(operations.Files[R]):
    """The operations of ``client.files``."""

    @operation
    def upload(self, file: Content, *, name: str | None = None, idempotency_key: str | None = None) -> Request[File]:
        """Uploads a file of up to 50 MiB, given as a path, bytes or an open file."""
        return _upload(file, name).with_key(idempotency_key)

    @iteration
    def upload_many(self, paths: Iterable[str | os.PathLike[str]], *, at_once: int = 4) -> Emitting[UploadProgress]:
        """Uploads files concurrently and yields the outcome of each, in the order of ``paths``.

        A file that is rejected or can't be read doesn't stop the others. Raises ``ConnectionFailed`` and other errors
        that affect every file.
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

    @operation
    def save(self, file_id: str, path: str | os.PathLike[str]) -> Flow[int]:
        """Downloads a file to ``path``, where it appears once it's complete. Returns its size in bytes."""
        return saved(Request("GET", path_of("/files/{file_id}/download/", file_id), content), path, self._policy)


def _concerns_one_file(problem: BaseException) -> bool:
    if isinstance(problem, ApiError):
        return problem.status in (409, 413, 415, 422)
    return isinstance(problem, OSError)


def _upload(file: Content, name: str | None) -> Request[File]:
    return Request("POST", "/files/", one(File), upload=Upload(file, name), timeout=TRANSFER_SECONDS)
