"""The process that reads one file's tables: path, type and limits come as arguments, the answer is one line of JSON."""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path
from typing import Any

from services.artifacts.adapters.tables.formats import Refused, read_tables


def main(path: str, content_type: str, seconds: str, memory: str) -> None:
    limit = int(memory)
    if sys.platform == "linux":
        # Elsewhere it is refused, and the time has to do.
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    # Also ends it when its parent is gone.
    resource.setrlimit(resource.RLIMIT_CPU, (int(float(seconds)) + 1,) * 2)
    answer: dict[str, Any]
    try:
        answer = {"sheets": read_tables(Path(path), content_type)}
    except Refused as refusal:
        answer = {"refused": str(refusal)}
    except MemoryError:
        answer = {"refused": "Reading the file takes too much memory."}
    # Halves of characters, which some files have, are no text for anybody else.
    sys.stdout.buffer.write(json.dumps(answer, ensure_ascii=False).encode(errors="replace"))


if __name__ == "__main__":
    main(*sys.argv[1:])
