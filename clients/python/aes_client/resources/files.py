"""Files: a company's documents."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from aes_client import operations
from aes_client.errors import ApiError
from aes_client.flows import Emit, Emitting, Together
from aes_client.models import File
from aes_client.resource import R, iteration


@dataclass(frozen=True)
class UploadProgress:
    """The outcome of one file's upload: ``file`` or ``error`` is set. ``done`` counts the files processed so far."""

    path: str
    file: File | None
    error: ApiError | OSError | None
    done: int
    total: int


class Files(operations.Files[R]):
    """The operations of ``client.files``."""

    @iteration
    def upload_many(self, paths: Iterable[str | os.PathLike[str]], *, at_once: int = 4) -> Emitting[UploadProgress]:
        """Uploads files concurrently and yields the outcome of each, in the order of ``paths``.

        A file that is rejected or can't be read doesn't stop the others. Raises ``ConnectionFailed`` and other errors
        that affect every file.
        """
        all_paths = [os.fspath(path) for path in paths]
        for first in range(0, len(all_paths), at_once):
            batch = all_paths[first : first + at_once]
            outcomes = yield Together([self._send(Files.upload.request(self, path)) for path in batch])
            for done, (path, outcome) in enumerate(zip(batch, outcomes, strict=True), first + 1):
                failed = isinstance(outcome, BaseException)
                if failed and not _concerns_one_file(outcome):
                    raise outcome
                file, error = (None, outcome) if failed else (outcome, None)
                yield Emit(UploadProgress(path, file, error, done, len(all_paths)))


def _concerns_one_file(problem: BaseException) -> bool:
    if isinstance(problem, ApiError):
        return problem.status in (409, 413, 415, 422)
    return isinstance(problem, OSError)
