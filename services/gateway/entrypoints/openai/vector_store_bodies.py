"""The bodies of requests to vector stores."""

from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, ValidationError

from libs.contracts.errors import ValidationFailed, validation_details
from libs.contracts.models import Id, JsonObject, Name, StrictModel
from libs.contracts.resources.knowledge_bases import CreateKnowledgeBaseBody
from services.gateway.entrypoints.openai.conventions import refuse

_KEYS: Final = {"file_id": "file_ids", "collection_id": "collection_ids", "tag": "tags"}
"""The service's search filters, by the keys in a request."""


def _nothing(attributes: JsonObject) -> JsonObject:
    if attributes:
        raise ValueError("aren't supported; omit them")
    return attributes


Nothing = Annotated[JsonObject, Field(json_schema_extra={"maxProperties": 0}), AfterValidator(_nothing)]
"""Custom attributes. They aren't stored, so only an empty object is accepted."""


class AutoChunking(StrictModel):
    type: Literal["auto"]


class StaticSizes(StrictModel):
    max_chunk_size_tokens: Annotated[int, Field(ge=100, le=4096)]
    chunk_overlap_tokens: Annotated[int, Field(ge=0, le=2048)]


class StaticChunking(StrictModel):
    type: Literal["static"]
    static: StaticSizes


Chunking = Annotated[AutoChunking | StaticChunking, Field(discriminator="type")]


class CreateStore(StrictModel):
    name: str | None = None
    description: str | None = None
    file_ids: Annotated[list[Id], Field(max_length=500)] = []
    chunking_strategy: Chunking | None = None
    metadata: Nothing | None = None
    expires_after: None = None

    def settings(self) -> CreateKnowledgeBaseBody:
        """Returns the body for creating a knowledge base. Raises ``ValidationFailed`` for invalid settings."""
        settings: JsonObject = {
            "name": self.name or "Vector store",
            "description": self.description or "",
            "file_ids": self.file_ids,
            "ingest": bool(self.file_ids),
        }
        if isinstance(self.chunking_strategy, StaticChunking):
            sizes = self.chunking_strategy.static
            settings["chunking_strategy"] = {
                "chunk_size": sizes.max_chunk_size_tokens,
                "chunk_overlap": sizes.chunk_overlap_tokens,
            }
        try:
            return CreateKnowledgeBaseBody.model_validate(settings)
        except ValidationError as problem:
            details = validation_details(problem.errors())
            raise ValidationFailed("Invalid knowledge base settings.", details=details) from None


class UpdateStore(StrictModel):
    name: Name | None = None
    metadata: Nothing | None = None
    expires_after: None = None


class AttachFile(StrictModel):
    """A file to attach. It can't have separate chunking settings, because all files of a store are chunked alike."""

    file_id: Id
    attributes: Nothing | None = None
    chunking_strategy: AutoChunking | None = None


class AttachFiles(StrictModel):
    file_ids: Annotated[list[Id], Field(min_length=1, max_length=200)] | None = None
    files: Annotated[list[AttachFile], Field(min_length=1, max_length=200)] | None = None
    attributes: Nothing | None = None
    chunking_strategy: AutoChunking | None = None

    def ids(self) -> list[str]:
        """Returns the IDs of the files. Raises ``ValidationFailed`` unless exactly one of the two lists is given."""
        if (self.file_ids is None) == (self.files is None):
            raise refuse("file_ids", "Send either `file_ids` or `files`, not both.", "invalid_value")
        return list(dict.fromkeys(self.file_ids or [each.file_id for each in self.files or ()]))


class Ranking(StrictModel):
    ranker: Literal["auto"] | None = None
    score_threshold: Annotated[float, Field(ge=0, le=1)] | None = None


class SearchStore(StrictModel):
    query: str | Annotated[list[str], Field(min_length=1, max_length=1)]
    max_num_results: Annotated[int, Field(ge=1, le=50)] = 10
    filters: JsonObject | None = None
    ranking_options: Ranking | None = None
    rewrite_query: Literal[False] | None = None

    @property
    def text(self) -> str:
        return self.query if isinstance(self.query, str) else self.query[0]

    def wanted(self) -> JsonObject:
        """Returns the body for searching a knowledge base."""
        wanted: JsonObject = {"query": self.text, "top_k": self.max_num_results}
        if self.ranking_options is not None and self.ranking_options.score_threshold is not None:
            wanted["min_score"] = self.ranking_options.score_threshold
        if self.filters:
            wanted["filters"] = selection(self.filters)
        return wanted


def selection(filters: JsonObject) -> dict[str, list[str]]:
    """Returns the equivalent ``SearchFilters``. Raises ``ValidationFailed`` if there's no equivalent."""
    found: dict[str, list[str]] = {}
    several = filters.get("filters")
    for each in several if filters.get("type") == "and" and isinstance(several, list) else [filters]:
        name, values = _comparison(each)
        if name in found:
            raise refuse("filters", f"{each['key']!r} can only be compared once.")
        found[name] = values
    return found


def _comparison(given: Any) -> tuple[str, list[str]]:
    comparison = given if isinstance(given, dict) and given.keys() == {"type", "key", "value"} else {}
    kind, value = comparison.get("type"), comparison.get("value")
    values: list[Any] = value if kind == "in" and isinstance(value, list) else [value]
    name = _KEYS.get(str(comparison.get("key")))
    if kind not in ("eq", "in") or name is None or not values or not all(isinstance(each, str) for each in values):
        raise refuse("filters", f"filters can compare {', '.join(_KEYS)} with `eq` or `in`, joined by `and`.")
    return name, values
