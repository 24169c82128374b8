"""Cuts Markdown at its headings, blocks and lists by semantic-text-splitter, which knows the syntax."""

from collections.abc import Iterator

from semantic_text_splitter import MarkdownSplitter

from libs.contracts.api.knowledge import ChunkingStrategy, SplitBy
from services.ingestion.adapters.chunking.units import Units
from services.ingestion.domain.documents import ParsedDocument


def markdown_spans(document: ParsedDocument, settings: ChunkingStrategy) -> Iterator[tuple[int, int]]:
    splitter = _splitter(settings.split_by, settings.chunk_size, settings.chunk_overlap)
    for start, chunk in splitter.chunk_indices(document.text):
        yield start, start + len(chunk)


def _splitter(split_by: SplitBy, size: int, overlap: int) -> MarkdownSplitter:
    if split_by == "character":
        return MarkdownSplitter(size, overlap)

    def count(text: str) -> int:
        return Units(ParsedDocument(text), split_by).count(0, len(text))

    return MarkdownSplitter.from_callback(count, size, overlap)
