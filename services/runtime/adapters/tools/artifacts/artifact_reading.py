"""The `artifact_read` and `artifact_search` tools."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from libs.contracts.errors import ServiceError
from libs.contracts.identifiers import is_id
from libs.contracts.resources.artifacts import Artifact
from services.runtime.domain.artifacts import SessionArtifacts
from services.runtime.domain.conversation import JsonObject, numbered
from services.runtime.domain.tables import described
from services.runtime.domain.tools import ToolContext, ToolDefinition, ToolFailed, ToolOutput, object_schema

ARTIFACT: Final[JsonObject] = {
    "type": "string",
    "minLength": 1,
    "maxLength": 300,
    "description": "ID or name of a file in this session",
}
_MOST_NAMED: Final = 20
_USUAL: Final = 8_000
_LONGEST: Final = 18_000
_SAMPLE_ROWS: Final = 20
Find = Callable[[str], Awaitable[Artifact]]


@asynccontextmanager
async def artifact_lookup(artifacts: SessionArtifacts, context: ToolContext) -> AsyncIterator[Find]:
    """Yields a function that finds an artifact by ID or name. Within the context, service errors become ToolFailed."""

    async def find(named: str) -> Artifact:
        if is_id(named.strip().lower()):
            return await artifacts.get(context.session_id, named.strip().lower(), context.caller)
        known = await artifacts.all(context.session_id, context.caller)
        # If several files have this name, use the newest.
        found = next((facts for facts in known if facts.name.lower() == named.strip().lower()), None)
        if found is None:
            names = ", ".join(facts.name for facts in known[:_MOST_NAMED]) or "none"
            raise ToolFailed(f"this session doesn't have a file {named[:100]!r}; files: {names}")
        return found

    try:
        yield find
    except ServiceError as problem:
        raise ToolFailed(problem.message) from problem


class ArtifactRead:
    definition = ToolDefinition(
        name="artifact_read",
        description=(
            "Reads a file in this session. For a document, returns its text, in parts if it's long. For a table,"
            " returns its sheets, columns and first rows."
        ),
        parameters=object_schema(
            ["artifact"],
            artifact=ARTIFACT,
            offset={"type": "integer", "minimum": 0, "description": "offset of the first character; default 0"},
            limit={"type": "integer", "minimum": 1, "maximum": _LONGEST, "description": "characters"},
        ),
        safe_to_repeat=True,
        timeout_seconds=30.0,
    )

    def __init__(self, artifacts: SessionArtifacts) -> None:
        self._artifacts = artifacts

    async def call(self, arguments: JsonObject, context: ToolContext, /) -> ToolOutput:
        async with artifact_lookup(self._artifacts, context) as find:
            facts = await find(arguments["artifact"])
            match facts.processing_strategy:
                case "vision":
                    raise ToolFailed(f"{facts.name} is an image and doesn't contain text")
                case "structural_parsing":
                    tables = await self._artifacts.tables(
                        context.session_id, facts.artifact_id, context.caller, rows=_SAMPLE_ROWS
                    )
                    return ToolOutput(f"{facts.name}\n{described(tables)}")
                case _:
                    return await self._document(facts, arguments, context)

    async def _document(self, facts: Artifact, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        text = await self._artifacts.text(
            context.session_id,
            facts.artifact_id,
            context.caller,
            offset=arguments.get("offset", 0),
            limit=arguments.get("limit", _USUAL),
        )
        end = text.offset + len(text.text)
        more = "" if end >= text.characters else f"; continue at offset {end}"
        return ToolOutput(f"{text.text}\n\n(characters {text.offset} to {end} of {text.characters}{more})")


class ArtifactSearch:
    definition = ToolDefinition(
        name="artifact_search",
        description=(
            "Searches the documents in this session, or one of them, and returns the best-matching passages. "
            "Cite the passages that you use as [1], [2] …"
        ),
        parameters=object_schema(
            ["query"],
            query={"type": "string", "minLength": 1, "maxLength": 2000},
            artifact={**ARTIFACT, "description": "ID or name of a document; omit to search all documents"},
            top_k={"type": "integer", "minimum": 1, "maximum": 20},
        ),
        safe_to_repeat=True,
        timeout_seconds=30.0,
    )

    def __init__(self, artifacts: SessionArtifacts) -> None:
        self._artifacts = artifacts

    async def call(self, arguments: JsonObject, context: ToolContext, /) -> ToolOutput:
        async with artifact_lookup(self._artifacts, context) as find:
            chosen = [(await find(arguments["artifact"])).artifact_id] if "artifact" in arguments else None
            found = await self._artifacts.search(
                context.session_id,
                arguments["query"],
                context.caller,
                artifact_ids=chosen,
                top_k=arguments.get("top_k", 5),
            )
        return ToolOutput(numbered(found) or "No passage matches this query.", found)
