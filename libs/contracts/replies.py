"""Replies of turns, with their usage and tool calls."""

import operator
from functools import partial
from typing import Any, ClassVar, Literal

from pydantic import Field

from libs.contracts.citations import Citation
from libs.contracts.models import WireModel, is_none


class Usage(WireModel):
    """A turn's usage. ``seconds`` is how long the turn ran, excluding the time spent waiting.

    ``cost`` is an exact decimal, calculated with the model's price when the turn ended. It's ``null`` if the
    model has no price.
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "two model calls": {
            "input_tokens": 412,
            "output_tokens": 38,
            "model_calls": 2,
            "tool_calls": 1,
            "seconds": 1.384,
            "cost": "0.000391",
        }
    }

    input_tokens: int = 0
    output_tokens: int = 0
    model_calls: int = 0
    tool_calls: int = 0
    seconds: float = 0.0
    cost: str | None = None


class Attribution(WireModel):
    """The agent and model of a turn, and the user and key that started the turn."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "a user's key": {
            "agent_id": "01980f51-7e20-7b14-8c2d-1a2b3c4d5e04",
            "model": "openai:gpt-5-mini",
            "user_id": "01980f4e-2c05-7d42-8e1b-0b9a7c3d5e02",
            "key_id": "01980f4e-2d11-7e02-9c4d-2a1b0c9d8e03",
        }
    }

    agent_id: str | None = None
    model: str = ""
    user_id: str = ""
    key_id: str = ""


class ToolCallRecord(WireModel):
    """A tool call of a turn.

    ``status`` is ``completed``, ``failed``, ``unknown`` (a crash lost the outcome), or ``requested`` (the turn ended
    with this call, for the caller to run).
    """

    id: str
    name: str
    arguments: dict[str, Any]
    status: str
    output: str | None = None


FinishReason = Literal["stop", "length", "content_filter", "tool_calls"]


class Reply(WireModel):
    """The agent's reply. ``output`` is ``content`` parsed as JSON. It's omitted if the turn has no output schema."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "with a tool call": {
            "content": "17 * 23 = 391",
            "tool_calls": [
                {
                    "id": "call_7Qm2",
                    "name": "calculator",
                    "arguments": {"expression": "17 * 23"},
                    "status": "completed",
                    "output": "17 * 23 = 391",
                }
            ],
        }
    }

    content: str
    output: Any = Field(default=None, exclude_if=is_none)
    tool_calls: list[ToolCallRecord] = []
    citations: list[Citation] = []
    artifacts: list[dict[str, Any]] = []


class ExecuteReply(Attribution):
    """The response to ``execute``. ``message_id`` identifies the assistant's message.

    ``finish_reason`` is omitted after a normal stop. Otherwise it's ``length`` (truncated reply), ``content_filter``,
    or ``tool_calls`` (the turn ended with calls for the caller to run).
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "with a tool call": {
            **Attribution.EXAMPLES["a user's key"],
            "message_id": "01980f52-4c61-7f58-a061-5e6f7a8b9c08",
            "correlation_id": "ferry-desk-2026-05-04",
            "config_hash": "a0e7144f8ed2eab323747737f8ae1bcf8d16a9cee15a89038cffd78e7ca5ef82",
            "user_message_id": "01980f52-3b50-7e47-9f50-4d5e6f7a8b07",
        }
    }

    success: bool = True
    message_id: str
    response: Reply
    correlation_id: str
    session_id: str
    turn_id: str
    user_message_id: str
    usage: Usage
    config_hash: str
    warnings: list[str] = []
    finish_reason: FinishReason = Field(default="stop", exclude_if=partial(operator.eq, "stop"))
