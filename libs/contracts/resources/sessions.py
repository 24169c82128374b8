"""Sessions: conversations with an agent."""

import operator
from typing import Any, ClassVar, Final, Literal

from pydantic import BaseModel, Field, model_validator

from libs.contracts.messages import Command, Event
from libs.contracts.models import StrictModel, WireModel, is_none
from libs.contracts.pages import ListPage
from libs.contracts.resources.agents import AgentConfiguration, CreateAgentBody
from libs.contracts.resources.messages import GivenHistory, HistoryMessage, Message
from libs.contracts.timestamps import Timestamp

SessionStatus = Literal["active", "deleting"]


class AgentReference(StrictModel):
    """A stored agent. Specify either its ID or its key."""

    agent_id: str | None = Field(default=None, min_length=1, max_length=200)
    agent_key: str | None = Field(default=None, min_length=1, max_length=300)


class ForkSessionBody(StrictModel):
    """The body of ``POST /sessions/{session_id}/fork/``.

    Specify at most one turn; without one, the whole history is copied.
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "the whole history": {},
        "up to a turn": {"up_to_turn_id": "01980f52-1b42-7c25-9d3e-2b3c4d5e6f06"},
        "before a turn": {"before_turn_id": "01980f52-1b42-7c25-9d3e-2b3c4d5e6f06"},
    }

    up_to_turn_id: str | None = Field(default=None, min_length=1, max_length=200)
    before_turn_id: str | None = Field(default=None, min_length=1, max_length=200)

    @model_validator(mode="after")
    def _names_one_turn(self) -> "ForkSessionBody":
        if self.up_to_turn_id is not None and self.before_turn_id is not None:
            raise ValueError("set up_to_turn_id or before_turn_id, not both")
        return self


class SessionCreatedReply(BaseModel):
    """The new session's ID, and the hash of its configuration."""

    success: bool = True
    session_id: str
    config_hash: str


class Session(BaseModel):
    """A conversation, with a copy of its agent's configuration.

    ``forked_from`` is the ID of the session that the history was copied from. You can set ``metadata`` only
    through the OpenAI-compatible Conversations API. It's omitted if empty.
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "with a stored agent": {
            "session_id": "01980f52-0a31-7c25-9d3e-2b3c4d5e6f05",
            "config_hash": "a0e7144f8ed2eab323747737f8ae1bcf8d16a9cee15a89038cffd78e7ca5ef82",
            "created_at": "2026-05-04T08:16:02.114870Z",
            "status": "active",
            "agent_config": {"name": "Harbour desk", "agent_type": "react_agent"},
            "agent_id": "01980f51-7e20-7b14-8c2d-1a2b3c4d5e04",
            "owner_id": "01980f4e-2c05-7d42-8e1b-0b9a7c3d5e02",
        }
    }

    session_id: str
    config_hash: str
    created_at: Timestamp
    status: SessionStatus
    agent_config: dict[str, Any]
    agent_id: str | None = None
    owner_id: str = ""
    forked_from: str | None = None
    metadata: dict[str, str] | None = Field(default=None, exclude_if=is_none)


class SessionPage(ListPage):
    sessions: list[Session]


class ConfiguredSession(AgentConfiguration, GivenHistory):
    """The body of ``POST /sessions/`` with an agent configuration."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "with a configuration": {
            "name": "Support",
            "agent_type": "llm_agent",
            "system_prompt": "You answer questions about our product, briefly and kindly.",
            "llm_config": {"model": "builtin:extractive", "temperature": 0.2},
        }
    }


class ReferencedSession(AgentReference, GivenHistory):
    """The body of ``POST /sessions/`` with a stored agent. Specify either its ID or its key."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "with a stored agent": {"agent_key": "harbour-desk-7kq2vx"},
        "with an imported conversation": {
            "agent_key": "harbour-desk-7kq2vx",
            "messages": [
                {"role": "user", "content": "Does the ferry to Vardo run today?"},
                {"role": "assistant", "content": "Yes, at 16:10 from the north quay."},
            ],
        },
    }


CreateSessionBody = ConfiguredSession | ReferencedSession


class SessionCreated(Event, type="aes.runtime.session.created.v1"):
    """A session was created. ``forked_from`` is the ID of the session that the history was copied from.

    If the session was created by its first turn, the event has no causation ID. ``listed`` is omitted unless it's
    false. Unlisted sessions don't appear in lists but can be read by ID.
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "with a stored agent": {
            "config_hash": "a0e7144f8ed2eab323747737f8ae1bcf8d16a9cee15a89038cffd78e7ca5ef82",
            "agent_id": "01980f51-7e20-7b14-8c2d-1a2b3c4d5e04",
            "owner_id": "01980f4e-2c05-7d42-8e1b-0b9a7c3d5e02",
        }
    }

    session_id: str
    config_hash: str
    agent_id: str | None = None
    owner_id: str = ""
    forked_from: str | None = None
    listed: bool = Field(default=True, exclude_if=bool)


class SessionUpdated(Event, type="aes.runtime.session.updated.v1"):
    """A session's metadata was replaced, its agent was set, or ``messages`` were added to its history."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "new metadata": {},
        "a tool's result": {"messages": [Message.EXAMPLES["tool result"]]},
    }

    session_id: str
    messages: list[Message] = Field(default=[], exclude_if=operator.not_)


class SessionDeleted(Event, type="aes.runtime.session.deleted.v1"):
    """A session was deleted with its history. Delete any data that you store about the session, too."""

    session_id: str


class SessionBeginning(WireModel):
    """The validated settings of a new session. ``messages`` precede the first turn.

    If ``listed`` is false, the session doesn't appear in lists but can be read by ID. ``expires_after`` is the
    session's lifetime in seconds. A session isn't deleted while one of its turns is queued or running.
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "with a stored agent": {
            "agent_config": CreateAgentBody.EXAMPLES["with tools"],
            "config_hash": "a0e7144f8ed2eab323747737f8ae1bcf8d16a9cee15a89038cffd78e7ca5ef82",
            "agent_id": "01980f51-7e20-7b14-8c2d-1a2b3c4d5e04",
        }
    }

    agent_config: dict[str, Any]
    config_hash: str
    agent_id: str | None = None
    messages: list[HistoryMessage] = []
    listed: bool = True
    expires_after: int | None = Field(default=None, ge=1)
    metadata: dict[str, str] = {}


NO_AGENT: Final = ""
"""The ``config_hash`` of a session that doesn't have an agent yet. ``UpdateSession`` sets the agent."""


class CreateSession(
    Command, SessionBeginning, type="aes.runtime.create_session.v1", outcomes=(SessionCreated,), subject="session_id"
):
    """Create a session."""

    session_id: str


class UpdateSession(Command, type="aes.runtime.update_session.v1", outcomes=(SessionUpdated,), subject="session_id"):
    """Replace a session's ``metadata``, or set the ``agent`` of a session that has neither an agent nor turns."""

    EXAMPLES: ClassVar[dict[str, Any]] = {"new metadata": {"metadata": {"ticket": "4711"}}}

    session_id: str
    metadata: dict[str, str] | None = None
    agent: SessionBeginning | None = None


class AddMessages(Command, type="aes.runtime.add_messages.v1", outcomes=(SessionUpdated,), subject="session_id"):
    """Add messages to a session's history between turns. The command is rejected while a turn is in progress."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "a tool's result": {
            "messages": [
                {"role": "user", "content": "When does the ferry leave?"},
                {
                    "role": "assistant",
                    "content": "",
                    "tool_calls": [{"id": "call_1", "name": "timetable", "arguments": {"day": "monday"}}],
                },
                {"role": "tool", "content": "at nine", "tool_call_id": "call_1"},
            ]
        }
    }

    session_id: str
    messages: list[HistoryMessage]


class ForkSession(Command, type="aes.runtime.fork_session.v1", outcomes=(SessionCreated,)):
    """Create a session with another session's agent and a copy of its completed turns, up to or before a given turn.

    ``session_id`` is the new session. If no turn is given, all completed turns are copied. ``listed`` and
    ``expires_after`` work as in ``SessionBeginning``.
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {
        name: {"source_session_id": "01980f51-9c40-7d14-8b2e-3c4d5e6f7081", **body}
        for name, body in ForkSessionBody.EXAMPLES.items()
    }

    session_id: str
    source_session_id: str
    up_to_turn_id: str | None = None
    before_turn_id: str | None = None
    listed: bool = True
    expires_after: int | None = Field(default=None, ge=1)


class DeleteSession(Command, type="aes.runtime.delete_session.v1", outcomes=(SessionDeleted,), subject="session_id"):
    """Delete a session: reject new turns, cancel the running turn, and delete the history."""

    session_id: str
