"""Steps 3 and 4: a session with an agent over the knowledge base, its replies streaming in as they are made."""

from dataclasses import dataclass, field
from typing import Any

from aes_client import Client, SessionHandle
from aes_client.models import KnowledgeBase
from aes_client.runners import SyncRunner

from cli.demo.materials import Agent
from cli.demo.screen import Screen
from cli.demo.turn_view import TurnView

Session = SessionHandle[SyncRunner]


@dataclass
class Talk:
    """A session of the demo and what was said in it."""

    letter: str
    """Short name of the session in the demo."""
    session: Session
    agent: Agent
    turns: list[dict[str, Any]] = field(default_factory=list)
    """Each question with its reply."""
    artifacts: list[str] = field(default_factory=list)
    """Ids of the files that were uploaded or generated, in that order."""

    def as_json(self) -> dict[str, Any]:
        return {
            "session_id": self.session.session_id,
            "agent": self.agent.path,
            "turns": self.turns,
            "artifacts": self.artifacts,
        }


def hold(screen: Screen, client: Client, agent: Agent, base: KnowledgeBase, *, step: int, letter: str) -> Talk:
    """Opens a session and sends it the agent's messages."""
    screen.heading(step, agent.part.title, "POST /api/v1/runtime/{session_id}/execute/")
    session = client.sessions.create(config={**agent.configuration, "knowledge_bases": [base.id]})
    talk = Talk(letter, session, agent)
    screen.line(f"session {letter}  {session.session_id}", "dim")
    screen.line(f"model      {agent.model}", "dim")
    screen.line(f"knowledge  {base.name}, {base.datasource_count} documents", "dim")
    for question in agent.part.questions:
        screen.blank()
        screen.said("you", question)
        ask(screen, talk, question, question)
    return talk


def ask(screen: Screen, talk: Talk, question: str, content: Any) -> None:
    """Sends a message, shows its turn and keeps the result; ``content`` is the question with its attachments."""
    view = TurnView(screen)
    for event in talk.session.stream(content):
        view.show(event)
    talk.turns.append(view.finish(question))
