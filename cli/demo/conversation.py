"""Steps 3 and 4: a session with an agent over the knowledge base, its replies streaming in as they are made."""

from dataclasses import dataclass, field
from typing import Any

from cli.demo.api import Api
from cli.demo.materials import Agent
from cli.demo.screen import Screen
from cli.demo.turn_view import TurnView


@dataclass
class Talk:
    """A session of the demo and what was said in it."""

    letter: str
    """Short name of the session in the demo."""
    session_id: str
    agent: Agent
    turns: list[dict[str, Any]] = field(default_factory=list)
    artifacts: list[str] = field(default_factory=list)
    """Ids of the files that were uploaded or generated, in that order."""

    def as_json(self) -> dict[str, Any]:
        return {
            "session_id": self.session_id,
            "agent": self.agent.path,
            "turns": self.turns,
            "artifacts": self.artifacts,
        }


def hold(screen: Screen, api: Api, agent: Agent, base: dict[str, Any], *, step: int, letter: str) -> Talk:
    """Opens a session and sends it the agent's messages."""
    screen.heading(step, agent.part.title, "POST /api/v1/runtime/{session_id}/execute/")
    created = api.post("/sessions/", {**agent.configuration, "knowledge_bases": [base["id"]]})
    talk = Talk(letter, created["session_id"], agent)
    screen.line(f"session {letter}  {talk.session_id}", "dim")
    screen.line(f"model      {agent.model}", "dim")
    screen.line(f"knowledge  {base['name']}, {base['datasource_count']} documents", "dim")
    for question in agent.part.questions:
        screen.blank()
        screen.said("you", question)
        ask(screen, api, talk, question, question)
    return talk


def ask(screen: Screen, api: Api, talk: Talk, question: str, content: Any) -> dict[str, Any]:
    """Sends a message, shows its turn and keeps the result; ``content`` is the question with its attachments."""
    view = TurnView(screen)
    for event in api.stream(f"/runtime/{talk.session_id}/execute/", {"content": content}):
        view.show(event)
    turn = view.finish(question)
    talk.turns.append(turn)
    return turn
