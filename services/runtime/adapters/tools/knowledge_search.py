"""The `knowledge_search` tool, for agents with knowledge bases."""

from services.runtime.domain.conversation import JsonObject, numbered
from services.runtime.domain.knowledge import KnowledgeRetriever
from services.runtime.domain.tools import ToolContext, ToolDefinition, ToolFailed, ToolOutput, object_schema


class KnowledgeSearch:
    definition = ToolDefinition(
        name="knowledge_search",
        description=(
            "Searches the agent's knowledge bases and returns the best-matching passages. "
            "Cite the passages that you use as [1], [2] …"
        ),
        parameters=object_schema(["query"], query={"type": "string", "minLength": 1, "maxLength": 2000}),
        safe_to_repeat=True,
        timeout_seconds=20.0,
    )

    def __init__(self, retriever: KnowledgeRetriever) -> None:
        self._retriever = retriever

    async def call(self, arguments: JsonObject, context: ToolContext, /) -> ToolOutput:
        if not context.knowledge_bases:
            raise ToolFailed("this agent doesn't have any knowledge bases")
        found = await self._retriever.retrieve(arguments["query"], context.knowledge_bases, context.caller)
        lines = [f"Warning: {warning}" for warning in found.warnings]
        if found.chunks:
            lines.append(numbered(found.chunks))
        return ToolOutput("\n\n".join(lines) or "No passage matches this query.", found.chunks, warnings=found.warnings)
