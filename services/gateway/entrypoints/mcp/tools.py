"""Describes and implements the MCP tools."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mcp.types import CallToolResult, ContentBlock, ResourceLink, TextContent, Tool, ToolAnnotations
from pydantic import BaseModel, ValidationError

from libs.contracts.errors import ValidationFailed, validation_details
from libs.contracts.identity import Scope
from libs.contracts.resources.agents import Agent
from services.gateway.domain.accounts import Principal
from services.gateway.entrypoints.door.callers import require_scopes
from services.gateway.entrypoints.door.errors import as_service_error
from services.gateway.entrypoints.mcp import schemas
from services.gateway.entrypoints.mcp.answers import failure_text, next_step
from services.gateway.entrypoints.mcp.asking import Asking
from services.gateway.entrypoints.mcp.calls import Call
from services.gateway.entrypoints.mcp.reading import Reading, ask_name

Do = Callable[["Tools", Call, Any], Awaitable[BaseModel]]
_READS: Final = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
_ASKS: Final = ToolAnnotations(
    read_only_hint=False, idempotent_hint=False, destructive_hint=False, open_world_hint=True
)
_ASKING: Final = (Scope.SESSIONS_WRITE, Scope.RUNTIME_EXECUTE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolKind:
    """A tool's definition. ``title`` is for people, and ``description`` for models."""

    title: str
    description: str
    takes: type[BaseModel] = schemas.NoArguments
    returns: type[BaseModel]
    scopes: Sequence[Scope]
    only_reads: bool = True
    do: Do

    def tool(self, name: str) -> Tool:
        return Tool(
            name=name,
            title=self.title,
            description=self.description,
            input_schema=self.takes.model_json_schema(),
            # Uses the schema for validation, because the schema for serialization requires fields with defaults.
            output_schema=self.returns.model_json_schema(),
            annotations=_READS if self.only_reads else _ASKS,
        )


_KINDS: Final = {
    "list_agents": ToolKind(
        title="List agents",
        description="Lists the agents that you can ask, with their keys for ask_agent.",
        returns=schemas.Agents,
        scopes=[Scope.AGENTS_READ],
        do=lambda tools, call, _: tools.reading.agents(call.caller.identity),
    ),
    "ask_agent": ToolKind(
        title="Ask an agent",
        description=(
            "Sends a message to an agent and returns its reply. To continue the conversation, pass the returned"
            " session_id with the next message. If the status is waiting, a person or program has to act first."
            " The result says how."
        ),
        takes=schemas.AskAgent,
        returns=schemas.AgentAnswer,
        scopes=_ASKING,
        only_reads=False,
        do=lambda tools, call, asked: tools.asking.ask(call, asked.agent_key, asked),
    ),
    "list_knowledge_bases": ToolKind(
        title="List knowledge bases",
        description="Lists the knowledge bases that search_knowledge can search.",
        returns=schemas.KnowledgeBases,
        scopes=[Scope.KNOWLEDGE_READ],
        do=lambda tools, call, _: tools.reading.knowledge_bases(call.caller.principal),
    ),
    "search_knowledge": ToolKind(
        title="Search a knowledge base",
        description="Searches the documents of a knowledge base by words and by meaning. Returns passages.",
        takes=schemas.SearchKnowledge,
        returns=schemas.Passages,
        scopes=[Scope.KNOWLEDGE_READ],
        do=lambda tools, call, wanted: tools.reading.search(call.caller.principal, wanted),
    ),
    "read_session": ToolKind(
        title="Read a conversation",
        description="Returns a session's messages and open actions.",
        takes=schemas.ReadSession,
        returns=schemas.Conversation,
        scopes=[Scope.SESSIONS_READ],
        do=lambda tools, call, wanted: tools.reading.conversation(call.caller.identity, wanted.session_id),
    ),
}


def _ask(agent_key: str, name: str, tools: Sequence[str] = ()) -> ToolKind:
    """Returns the tool that asks one agent."""
    able = f" The agent has the tools {', '.join(tools)}." if tools else ""
    return ToolKind(
        title=f"Ask {name}",
        description=f"Sends a message to the agent {name} and returns its reply, like ask_agent.{able}",
        takes=schemas.Ask,
        returns=schemas.AgentAnswer,
        scopes=_ASKING,
        only_reads=False,
        do=lambda tools, call, asked: tools.asking.ask(call, agent_key, asked),
    )


@dataclass(frozen=True, slots=True)
class Tools:
    reading: Reading
    asking: Asking

    async def listed(self, principal: Principal) -> list[Tool]:
        """Returns the tools that the caller's scopes allow."""
        kinds = {name: kind for name, kind in _KINDS.items() if _allowed(principal, kind.scopes)}
        if _allowed(principal, [*_ASKING, Scope.AGENTS_READ]):
            kinds |= dict(map(_tool_of, await self.reading.newest_agents(principal.identity)))
        return [kind.tool(name) for name, kind in kinds.items()]

    async def call(self, call: Call, name: str, arguments: dict[str, Any]) -> CallToolResult | None:
        """Calls a tool. Returns the result or the error, or None for an unknown tool."""
        try:
            if (kind := _KINDS.get(name)) is None:
                if (key := await self.reading.key_of(call.caller.identity, name)) is None:
                    return None
                kind = _ask(key, key)
            require_scopes(call.caller.principal, kind.scopes)
            return _result(await kind.do(self, call, _checked(kind.takes, arguments)))
        except Exception as problem:
            failed = as_service_error(problem)
            return CallToolResult(content=[TextContent(text=failure_text(failed))], is_error=True)


def _tool_of(agent: Agent) -> tuple[str, ToolKind]:
    return ask_name(agent.agent_key), _ask(agent.agent_key, agent.name, agent.system_config.get("tools", ()))


def _allowed(principal: Principal, scopes: Sequence[Scope]) -> bool:
    return principal.identity.scopes.issuperset(scopes)


def _checked(model: type[BaseModel], arguments: dict[str, Any]) -> BaseModel:
    try:
        return model.model_validate(arguments)
    except ValidationError as problem:
        details = validation_details(problem.errors())
        raise ValidationFailed("Invalid tool arguments.", details=details) from None


def _result(value: BaseModel) -> CallToolResult:
    """Returns a value as structured content, and as text for clients without support for structured content."""
    content: list[ContentBlock] = [TextContent(text=value.model_dump_json())]
    if isinstance(value, schemas.AgentAnswer):
        if (advice := next_step(value)) is not None:
            content.insert(0, TextContent(text=advice))
        content += [ResourceLink(name=each.name, uri=each.uri, mime_type=each.content_type) for each in value.artifacts]
    return CallToolResult(content=content, structured_content=value.model_dump(mode="json"))
