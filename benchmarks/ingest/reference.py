"""The hand-written reference: one process that reads, chunks, embeds and stores a folder, without checkpoints.

It reads into Markdown and chunks as the service does, so that both sides have the same chunks, and uses the same model,
through the package that it comes in.

`python -m benchmarks.ingest.reference FOLDER`, with the database's URL in REFERENCE_DATABASE_URL. Prints what it did
as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import psycopg
from kreuzberg import ExtractionConfig, extract_file_sync
from pgvector.psycopg import register_vector
from wordllama import WordLlama  # type: ignore[import-untyped]

from benchmarks.ingest.corpus import CHUNKING, corpus_files
from services.ingestion.adapters.chunking.cut import cut
from services.ingestion.domain.documents import ParsedDocument

_AT_ONCE = 512
_TABLES = """
    CREATE EXTENSION IF NOT EXISTS vector;
    DROP TABLE IF EXISTS chunks;
    CREATE TABLE chunks (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        file text NOT NULL,
        position integer NOT NULL,
        content text NOT NULL,
        words tsvector GENERATED ALWAYS AS (to_tsvector('english', content)) STORED,
        embedding vector(256) NOT NULL
    );
    CREATE INDEX ON chunks USING hnsw (embedding vector_ip_ops);
    CREATE INDEX ON chunks USING gin (words);
"""
Row = tuple[str, int, str]


class Reference:
    def __init__(self, connection: psycopg.Connection[tuple[object, ...]]) -> None:
        self._connection = connection
        # Without a cache, which would spare the second round its parsing.
        self._config = ExtractionConfig(output_format="markdown", use_cache=False)
        self._model = _model()
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.chunks = self.files = self.failed = 0

    def ingest(self, folder: Path) -> None:
        rows: list[Row] = []
        for path in corpus_files(folder):
            rows += self._rows(path)
            while len(rows) >= _AT_ONCE:
                self._store(rows[:_AT_ONCE])
                del rows[:_AT_ONCE]
        self._store(rows)

    def _rows(self, path: Path) -> list[Row]:
        try:
            with self._timed("parsing"):
                text = extract_file_sync(path, config=self._config).content
        except Exception as problem:
            print(f"{path}: {problem}", file=sys.stderr)
            self.failed += 1
            return []
        self.files += 1
        with self._timed("chunking"):
            return [(str(path), chunk.index, chunk.text) for chunk in cut(ParsedDocument(text), CHUNKING, str(path))]

    def _store(self, rows: list[Row]) -> None:
        if not rows:
            return
        with self._timed("embedding"):
            vectors: npt.NDArray[np.float32] = self._model.embed([content for _, _, content in rows], norm=True)
        with self._timed("indexing"), self._connection.transaction():
            statement = "COPY chunks (file, position, content, embedding) FROM STDIN (FORMAT BINARY)"
            with self._connection.cursor().copy(statement) as copy:
                copy.set_types(["text", "int4", "text", "vector"])
                for (file, position, content), vector in zip(rows, vectors, strict=True):
                    copy.write_row((file, position, content.replace("\0", ""), vector))
        self.chunks += len(rows)

    @contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.seconds[stage] += time.perf_counter() - began


def _model() -> Any:
    package = find_spec("wordllama")
    assert package is not None
    assert package.origin is not None
    return WordLlama.load(cache_dir=Path(package.origin).parent, disable_download=True)


def main() -> None:
    with psycopg.connect(os.environ["REFERENCE_DATABASE_URL"], autocommit=True) as connection:
        connection.execute(_TABLES)
        register_vector(connection)
        reference = Reference(connection)
        # The model is loaded before the clock starts, as in a worker that is up.
        print("ready", flush=True)
        sys.stdin.readline()
        began = time.perf_counter()
        reference.ingest(Path(sys.argv[1]))
        result = {
            "seconds": time.perf_counter() - began,
            "files": reference.files,
            "failed": reference.failed,
            "chunks": reference.chunks,
            "stages": dict(reference.seconds),
        }
        print(json.dumps(result), flush=True)
        # The process waits to be ended, since the connection's CPU time is counted with it.
        sys.stdin.readline()


if __name__ == "__main__":
    main()
