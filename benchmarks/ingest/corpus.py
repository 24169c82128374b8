"""Lists the files to ingest: all of a folder whose type the service accepts, at any depth."""

from __future__ import annotations

from pathlib import Path

from libs.contracts.api.knowledge import ChunkingStrategy

CHUNKING = ChunkingStrategy(chunk_size=2000, chunk_overlap=0, split_by="character")
"""Chunking of both sides."""
_EXTENSIONS = frozenset({".md", ".html", ".txt", ".csv", ".json", ".pdf", ".docx", ".xlsx"})
_LARGEST = 50 * 1024 * 1024


def corpus_files(folder: Path) -> list[Path]:
    """In order of their paths; empty and oversized ones are left out."""
    return sorted(
        path
        for path in folder.rglob("*")
        if path.suffix.lower() in _EXTENSIONS and path.is_file() and 0 < path.stat().st_size <= _LARGEST
    )
