"""Fakes around the agent loop: a journal that keeps steps like the turn store, scripted models, odd tools."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from libs.contracts.identity import Identity
from services.runtime.domain.agents import (
    AgentSpec,
    AgentTask,
    TurnLost,
)
from services.runtime.domain.conversation import (
    Citation,
    JsonObject,
    Message,
    ModelAnswer,
    TextPart,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
)
from services.runtime.domain.knowledge import KnowledgeBaseRef, Retrieved
from services.runtime.domain.models import ModelRequest, OnText
from services.runtime.domain.steps import Step
from services.runtime.domain.tools import (
    Approval,
    Tool,
    Toolbox,
    ToolContext,
    ToolDefinition,
    ToolFailed,
    ToolOutput,
)
from services.runtime.use_cases.agent.turn_tools import AgentTools
from tests.support.waiting import pace

CALLER = Identity(company_id="company", user_id="user", key_id="key", scopes=frozenset({"runtime:execute"}))


def said(text: str) -> UserMessage:
    return UserMessage((TextPart(text),))


def calling(*calls: tuple[str, JsonObject], text: str = "") -> ModelAnswer:
    numbered = tuple(ToolCall(f"c{n}", name, arguments) for n, (name, arguments) in enumerate(calls, 1))
    return ModelAnswer(text, numbered, Usage(10, 5, model_calls=1), "tool_calls")


def answering(text: str, finish_reason: str = "stop") -> ModelAnswer:
    return ModelAnswer(text, (), Usage(10, 5, model_calls=1), finish_reason)


def agent_task(
    question: str | UserMessage = "What is 6*7?",
    *,
    agent: AgentSpec | None = None,
    history: Sequence[Message] = (),
) -> AgentTask:
    return AgentTask(
        turn_id="turn",
        session_id="session",
        caller=CALLER,
        agent=agent or AgentSpec("react_agent", model="scripted:model", tools=("echo",)),
        history=history,
        question=said(question) if isinstance(question, str) else question,
    )


@dataclass
class MemoryJournal:
    """Keeps steps as rows, as the store does. `lost_after` records raise TurnLost from then on."""

    steps: list[Step] = field(default_factory=list)
    wants_text: bool = False
    lost_after: int | None = None
    allowed_calls: dict[str, str] = field(default_factory=dict)
    after_wait: bool = False
    text: list[tuple[int, str]] = field(default_factory=list)
    transactions: int = 0

    def _transaction(self) -> None:
        if self.lost_after is not None and self.transactions >= self.lost_after:
            raise TurnLost
        self.transactions += 1

    async def record(self, step: Step) -> None:
        await asyncio.sleep(0)
        self._transaction()
        row = step.to_row()
        self.steps.append(Step.from_row(row["number"], row["kind"], row["payload"], row.get("usage")))

    def output_text(self, piece: str, step: int) -> None:
        self.text.append((step, piece))

    def results(self) -> list[ToolResult]:
        return [step.content for step in self.steps if isinstance(step.content, ToolResult)]


Script = ModelAnswer | Exception | Callable[[ModelRequest], ModelAnswer]


class ScriptedModel:
    """Gives its answers in order, the last one for ever."""

    def __init__(self, *script: Script) -> None:
        self._script = script
        self.requests: list[ModelRequest] = []

    async def answer(self, request: ModelRequest, on_text: OnText | None = None) -> ModelAnswer:
        self.requests.append(request)
        step = self._script[min(len(self.requests), len(self._script)) - 1]
        if isinstance(step, Exception):
            raise step
        answer = step(request) if callable(step) else step
        if on_text is not None and answer.text:
            half = len(answer.text) // 2
            on_text(answer.text[:half])
            on_text(answer.text[half:])
        return answer


class FakeTool:
    """Takes `{"text": string}`; what it does with it is `behave`'s affair."""

    def __init__(
        self,
        name: str = "echo",
        behave: Callable[[str], str] | None = None,
        *,
        safe_to_repeat: bool = True,
        timeout_seconds: float = 5.0,
        approval: Approval = "never",
        delay: float = 0.0,
        citations: tuple[Citation, ...] = (),
    ) -> None:
        self.definition = ToolDefinition(
            name=name,
            description="a fake",
            parameters={
                "type": "object",
                "properties": {"text": {"type": "string", "maxLength": 20}},
                "required": ["text"],
                "additionalProperties": False,
            },
            safe_to_repeat=safe_to_repeat,
            timeout_seconds=timeout_seconds,
            approval=approval,
        )
        self._behave = behave or (lambda text: text)
        self._delay = delay
        self._citations = citations
        self.contexts: list[ToolContext] = []
        self.running = 0
        self.most_running = 0
        self.cancelled = 0

    async def call(self, arguments: JsonObject, context: ToolContext, /) -> ToolOutput:
        self.contexts.append(context)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            await pace(self._delay)
            return ToolOutput(self._behave(arguments["text"]), citations=self._citations)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1


def with_tools(*tools: Tool) -> AgentTools:
    return AgentTools(Toolbox(*tools))


def failing(message: str) -> Callable[[str], str]:
    def behave(_text: str) -> str:
        raise ToolFailed(message)

    return behave


class FakeRetriever:
    def __init__(self, *chunks: Citation, warnings: tuple[str, ...] = ()) -> None:
        self._found = Retrieved(chunks, warnings)
        self.queries: list[tuple[str, tuple[str, ...], Identity]] = []

    async def retrieve(self, query: str, knowledge_bases: Sequence[KnowledgeBaseRef], caller: Identity) -> Retrieved:
        self.queries.append((query, tuple(base.id for base in knowledge_bases), caller))
        return self._found
