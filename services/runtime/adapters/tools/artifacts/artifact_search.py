"""The `artifact_search` tool."""

from services.runtime.adapters.tools.artifacts.artifact_lookup import ARTIFACT, artifact_lookup
from services.runtime.domain.artifacts import SessionArtifacts
from services.runtime.domain.conversation import JsonObject, numbered
from services.runtime.domain.tools import ToolContext, ToolDefinition, ToolOutput, object_schema


class ArtifactSearch:
    definition = ToolDefinition(
        name="artifact_search",
        description="Searches the documents of this session, or one of them, and returns the passages that fit best.",
        parameters=object_schema(
            ["query"],
            query={"type": "string", "minLength": 1, "maxLength": 2000},
            artifact={**ARTIFACT, "description": "id or name of the document; all documents when left out"},
            top_k={"type": "integer", "minimum": 1, "maximum": 20},
        ),
        safe_to_repeat=True,
        timeout_seconds=30.0,
    )

    def __init__(self, artifacts: SessionArtifacts) -> None:
        self._artifacts = artifacts

    async def call(self, arguments: JsonObject, context: ToolContext, /) -> ToolOutput:
        async with artifact_lookup(self._artifacts, context) as find:
            chosen = [(await find(arguments["artifact"])).id] if "artifact" in arguments else None
            found = await self._artifacts.search(
                context.session_id,
                arguments["query"],
                context.caller,
                artifact_ids=chosen,
                top_k=arguments.get("top_k", 5),
            )
        return ToolOutput(numbered(found) or "No passage fits this query.", found)
