"""Steps 2 and 3: a session with an agent over the document, its replies streaming in as they are made."""

from dataclasses import dataclass, field
from typing import Any

from cli.demo.api import Api
from cli.demo.materials import Agent, Document
from cli.demo.screen import Screen
from cli.demo.turn_view import TurnView

_WITH_DOCUMENT = "{prompt}\n\nThe document {path} follows.\n\n{text}"


@dataclass
class Talk:
    """A session of the demo and what was said in it."""

    letter: str
    """What the demo calls it for short."""
    session_id: str
    agent: Agent
    turns: list[dict[str, Any]] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return {"session_id": self.session_id, "agent": self.agent.path, "turns": self.turns}


def hold(screen: Screen, api: Api, agent: Agent, document: Document, *, step: int, letter: str) -> Talk:
    """Open a session and send it the agent's messages."""
    screen.heading(step, agent.part.title, "POST /api/v1/runtime/{session_id}/execute/")
    created = api.post("/sessions/", with_document(agent.configuration, document))
    talk = Talk(letter, created["session_id"], agent)
    screen.line(f"session {letter}  {talk.session_id}", "dim")
    screen.line(f"model      {agent.model}", "dim")
    screen.line(f"document   {document.path}, {document.words:,} words", "dim")
    for question in agent.part.questions:
        screen.blank()
        screen.said("you", question)
        view = TurnView(screen)
        for event in api.stream(f"/runtime/{talk.session_id}/execute/", {"content": question}):
            view.show(event)
        talk.turns.append(view.finish(question))
    return talk


def with_document(configuration: dict[str, Any], document: Document) -> dict[str, Any]:
    """The configuration with the document in its prompt: knowledge bases are not there yet."""
    prompt = _WITH_DOCUMENT.format(
        prompt=configuration.get("system_prompt", "").rstrip(), path=document.path, text=document.text
    )
    return {**configuration, "system_prompt": prompt}
