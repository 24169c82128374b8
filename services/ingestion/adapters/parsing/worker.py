"""The parsing process: jobs on standard input, answers on standard output, ends with its parent.

Frames without an answer tell that a part of the job is done.
"""

import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any, BinaryIO

from libs.confined import give_way
from libs.contracts.api.knowledge import ChunkingStrategy
from services.ingestion.adapters.chunking.cut import cut
from services.ingestion.adapters.parsing import frames
from services.ingestion.adapters.parsing.limits import Limits, PartDone
from services.ingestion.adapters.parsing.reader import read_file
from services.ingestion.domain.documents import ParsedDocument
from services.ingestion.domain.parsing import Unparsable

# Above the parent's limit, for growth faster than its watch; code and stacks count here too.
_MEMORY_SLACK = 512 * 1024**2
_GRACE_SECONDS = 5
_TELL_SECONDS = 0.5


def main() -> None:
    requests, answers = sys.stdin.buffer, _own_output()
    limits = Limits(**frames.expect(requests))
    import kreuzberg  # noqa: F401 - loaded before the first job, whose time is limited

    _confine(limits)
    # A file takes seconds or minutes, an answer of a service milliseconds.
    give_way()
    frames.write(answers, {"ready": True})
    while (frame := frames.read(requests)) is not None:
        _answer(answers, *frame, limits, _Parts(answers, limits))
        signal.alarm(0)


class _Parts:
    """Tells the parent, now and then, that parts of the job are done."""

    def __init__(self, answers: BinaryIO, limits: Limits) -> None:
        self._answers = answers
        # Ends a process that is stuck in a part even when its parent is gone.
        self._alarm = int(limits.timeout_seconds) + _GRACE_SECONDS
        self._reported = time.monotonic()
        signal.alarm(self._alarm)

    def __call__(self) -> None:
        now = time.monotonic()
        if now - self._reported >= _TELL_SECONDS:
            self._reported = now
            signal.alarm(self._alarm)
            frames.write(self._answers, {"part_done": True})


def _own_output() -> BinaryIO:
    """Redirects the output of libraries to standard error, away from the answers."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return answers


def _confine(limits: Limits) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        data = limits.memory_bytes + _MEMORY_SLACK
        resource.setrlimit(resource.RLIMIT_DATA, (data, data))


def _answer(answers: BinaryIO, job: dict[str, Any], body: bytes, limits: Limits, part_done: PartDone) -> None:
    try:
        head, document = _work(job, body, limits, part_done)
    except Unparsable as error:
        head, document = {"code": error.code, "message": error.message, "retryable": error.retryable}, b""
    except MemoryError:
        head, document = {"code": "memory", "message": "", "retryable": True}, b""
    except BaseException as error:
        # A panic of the native extension is no Exception.
        if isinstance(error, SystemExit | KeyboardInterrupt):
            raise
        message = f"The file made the parser fail ({type(error).__name__}: {error})."[:500]
        head, document = {"code": "damaged", "message": message, "retryable": False}, b""
    frames.write(answers, head, document)


def _work(job: dict[str, Any], body: bytes, limits: Limits, part_done: PartDone) -> tuple[dict[str, Any], bytes]:
    path = job.get("path")
    if path is None:
        document, stored = ParsedDocument.from_bytes(body), b""
    else:
        document = read_file(Path(path), job["name"], job["content_type"], limits, part_done)
        stored = document.to_bytes()
        part_done()
    if job["strategy"] is None:
        return {"chunks": []}, stored
    chunks = cut(document, ChunkingStrategy(**job["strategy"]), job["source"], part_done)
    part_done()
    head = {"chunks": [(c.id, c.start, c.end, c.page, c.row) for c in chunks], "stored": len(stored)}
    if not job["wanted"]:
        return head, stored
    # Its imports take longer than most files.
    from services.ingestion.adapters.parsing.preparing import prepare

    made, body = prepare(chunks, job["wanted"])
    return head | made, stored + body


if __name__ == "__main__":
    main()
