"""The `artifact_read` tool."""

from typing import Final

from services.runtime.adapters.tools.artifacts.artifact_lookup import ARTIFACT, artifact_lookup
from services.runtime.domain.artifacts import ArtifactFacts, SessionArtifacts
from services.runtime.domain.conversation import JsonObject
from services.runtime.domain.tables import described
from services.runtime.domain.tools import ToolContext, ToolDefinition, ToolFailed, ToolOutput, object_schema

_USUAL: Final = 8_000
_LONGEST: Final = 18_000
_SAMPLE_ROWS: Final = 20


class ArtifactRead:
    definition = ToolDefinition(
        name="artifact_read",
        description=(
            "Reads a file of this session: the text of a document, in portions when it is long; the sheets, columns"
            " and first rows of a table."
        ),
        parameters=object_schema(
            ["artifact"],
            artifact=ARTIFACT,
            offset={"type": "integer", "minimum": 0, "description": "character to begin at; 0 when left out"},
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
            match facts.strategy:
                case "vision":
                    raise ToolFailed(f"{facts.name} is an image and has no text")
                case "structural_parsing":
                    tables = await self._artifacts.tables(
                        context.session_id, facts.id, context.caller, rows=_SAMPLE_ROWS
                    )
                    return ToolOutput(f"{facts.name}\n{described(tables)}")
                case _:
                    return await self._document(facts, arguments, context)

    async def _document(self, facts: ArtifactFacts, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        text = await self._artifacts.text(
            context.session_id,
            facts.id,
            context.caller,
            offset=arguments.get("offset", 0),
            limit=arguments.get("limit", _USUAL),
        )
        end = text.offset + len(text.text)
        more = "" if end >= text.characters else f"; go on with offset {end}"
        return ToolOutput(f"{text.text}\n\n(characters {text.offset} to {end} of {text.characters}{more})")
