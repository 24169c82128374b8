"""Models of the tools' arguments and structured results. Clients see them as JSON Schemas."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from libs.contracts.citations import Citation
from libs.contracts.models import StrictModel
from libs.contracts.resources.actions import OpenAction
from libs.contracts.resources.messages import MessageText
from libs.contracts.resources.turns import RequiredAction

SessionId = Annotated[str, Field(min_length=1, max_length=200)]


class NoArguments(StrictModel):
    """An empty object, for tools without arguments."""


class Ask(StrictModel):
    message: MessageText = Field(description="The message to the agent.")
    session_id: SessionId | None = Field(
        default=None,
        description="The session_id from an earlier result, to continue that conversation. Omit it to start a new one.",
    )


class AskAgent(Ask):
    agent_key: str = Field(min_length=1, max_length=300, description="The agent's key, from list_agents.")


class SearchKnowledge(StrictModel):
    knowledge_base: str = Field(min_length=1, max_length=200, description="The ID or name of the knowledge base.")
    query: str = Field(min_length=1, max_length=10_000, description="The search text.")
    top_k: int = Field(default=5, ge=1, le=50, description="The maximum number of passages.")


class ReadSession(StrictModel):
    session_id: SessionId


class ArtifactLink(BaseModel):
    """A file in a session. Read the resource ``uri`` to get its content."""

    artifact_id: str
    name: str
    content_type: str
    uri: str


class AgentAnswer(BaseModel):
    """The outcome of a message. A ``completed`` turn has a ``reply``, and a ``waiting`` turn has ``required_actions``.

    A ``queued`` or ``running`` turn continues. Call ``read_session`` later to get its reply.
    """

    status: Literal["completed", "waiting", "queued", "running"]
    session_id: str
    turn_id: str
    reply: str = ""
    output: Any = Field(default=None, description="The reply's structured value, for agents with an output schema.")
    citations: list[Citation] = []
    artifacts: list[ArtifactLink] = []
    required_actions: list[RequiredAction] = []


class ListedAgent(BaseModel):
    """An agent. ``tool``: the name of the tool that asks only this agent, if there is one."""

    agent_key: str
    name: str
    agent_type: str
    tools: list[str] = []
    tool: str | None = None


class Agents(BaseModel):
    agents: list[ListedAgent]


class ListedKnowledgeBase(BaseModel):
    """A knowledge base. ``documents``: the number of searchable documents."""

    id: str
    name: str
    description: str
    status: str
    documents: int


class KnowledgeBases(BaseModel):
    knowledge_bases: list[ListedKnowledgeBase]
    total: int


class Passages(BaseModel):
    """The passages that were found, best first. ``score`` ranges from 0 to 1."""

    knowledge_base_id: str
    query: str
    results: list[Citation]


class SaidMessage(BaseModel):
    role: str
    content: str
    timestamp: str
    turn_id: str | None = None


class Conversation(BaseModel):
    """A session's newest messages, in order. ``omitted``: the number of earlier messages."""

    session_id: str
    agent: str
    status: str
    created_at: str
    messages: list[SaidMessage]
    omitted: int
    required_actions: list[OpenAction] = []
