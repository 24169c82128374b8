"""Labelled collections in the usual forms: files as BEIR has them, judgements also as TREC has them."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson

SHIPPED = Path(__file__).parent / "skarholm"
_CORPORA = ("corpus.jsonl", "collection.jsonl", "documents.jsonl", "corpus.tsv", "collection.tsv")
_QUERIES = ("queries.jsonl", "topics.jsonl", "queries.tsv", "topics.tsv")
_JUDGEMENTS = (
    "qrels/test.tsv", "qrels/dev.tsv", "qrels/train.tsv", "qrels.tsv", "qrels.txt", "qrels.trec", "qrels", "*.qrels",
    "*.qrel", "qrels*",
)  # fmt: skip


class NotACollection(ValueError):
    """Something is missing, or not in a form that is known."""


@dataclass(frozen=True)
class Labelled:
    name: str
    documents: dict[str, str]
    queries: dict[str, str]
    judgements: dict[str, dict[str, int]]

    @classmethod
    def read(cls, directory: Path) -> "Labelled":
        """Only queries with judgements are kept, and only documents with text."""
        documents = dict(_texts(_find(directory, _CORPORA, "documents")))
        judgements = _judgements(_find(directory, _JUDGEMENTS, "judgements"))
        queries = dict(_texts(_find(directory, _QUERIES, "queries")))
        asked = {query: text for query, text in queries.items() if query in judgements}
        if not asked:
            raise NotACollection(f"no query of {directory} has judgements")
        return cls(directory.name, documents, asked, {query: judgements[query] for query in asked})


def _find(directory: Path, patterns: tuple[str, ...], what: str) -> Path:
    for pattern in patterns:
        for path in sorted(directory.glob(pattern)):
            if path.is_file():
                return path
    raise NotACollection(f"{directory} has no {what}: none of {', '.join(patterns)}")


def _texts(file: Path) -> Iterator[tuple[str, str]]:
    with file.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if not line.strip():
                continue
            if file.suffix == ".jsonl":
                fields = orjson.loads(line)
                identity = str(next(fields[name] for name in ("_id", "id", "docid", "qid") if name in fields))
                parts = [fields.get(name) or "" for name in ("title", "text", "contents", "query")]
            else:
                identity, *parts = line.rstrip("\n").split("\t")
            if text := "\n".join(part.strip() for part in parts if part.strip()):
                yield identity, text


def _judgements(file: Path) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    with file.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            fields = next(csv.reader([line.strip()], delimiter="\t")) if "\t" in line else line.split()
            if not fields:
                continue
            try:
                # TREC has an iteration between query and document, BEIR has not.
                query, document, grade = (fields[0], fields[-2], int(float(fields[-1])))
            except (ValueError, IndexError):
                if number == 0:
                    continue
                raise NotACollection(f"{file}, line {number + 1}: not a judgement") from None
            found.setdefault(query, {})[document] = grade
    return found
