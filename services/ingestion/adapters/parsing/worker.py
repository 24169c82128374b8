"""The parsing process, which reads files, cuts them into chunks, and computes the chunks' index data."""

from pathlib import Path
from typing import Any

from libs.confined import PartDone, answer_jobs
from libs.contracts.resources.knowledge_bases import ChunkingStrategy
from services.ingestion.adapters.chunking.cut import cut
from services.ingestion.adapters.parsing.reader import read_file
from services.ingestion.domain.documents import ParsedDocument
from services.ingestion.domain.parsing import Unparsable


def main() -> None:
    import kreuzberg  # noqa: F401 - loaded before the first job, whose time is limited

    answer_jobs(_answer)


def _answer(job: dict[str, Any], body: bytes, part_done: PartDone) -> tuple[dict[str, Any], bytes]:
    try:
        return _work(job, body, part_done)
    except Unparsable as error:
        return {"code": error.code, "message": error.message, "retryable": error.retryable}, b""
    except BaseException as error:
        # A panic of the native extension isn't an Exception.
        if isinstance(error, SystemExit | KeyboardInterrupt | MemoryError):
            raise
        message = f"The parser failed on this file ({type(error).__name__}: {error})."[:500]
        return {"code": "damaged", "message": message, "retryable": False}, b""


def _work(job: dict[str, Any], body: bytes, part_done: PartDone) -> tuple[dict[str, Any], bytes]:
    if "file" in job:
        document = read_file(Path(job["file"]), job["name"], job["content_type"], part_done)
        stored = document.to_bytes()
        part_done()
    else:
        document, stored = ParsedDocument.from_bytes(body), b""
    if "strategy" not in job:
        return {"chunks": []}, stored
    chunks = cut(document, ChunkingStrategy(**job["strategy"]), job["source"], part_done)
    part_done()
    head = {"chunks": [(c.id, c.start, c.end, c.page, c.row) for c in chunks], "stored": len(stored)}
    if not job["wanted"]:
        return head, stored
    # Its imports take longer than parsing most files.
    from services.ingestion.adapters.parsing.preparing import prepare

    made, body = prepare(chunks, job["wanted"])
    return head | made, stored + body


if __name__ == "__main__":
    main()
