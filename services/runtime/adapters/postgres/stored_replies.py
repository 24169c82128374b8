"""Replies as the rows of turns keep them: without what the turn's other columns and its message have."""

from collections.abc import Mapping
from typing import Any, Final

from libs.json_text import read_json, write_json
from services.runtime.domain.conversation import JsonObject

_COLUMNS: Final = ("message_id", "correlation_id", "session_id", "turn_id", "user_message_id", "usage")


def stored_reply(payload: bytes) -> bytes:
    """The part of a ``turn.completed``'s payload that is kept."""
    reply: JsonObject = read_json(payload)
    for name in _COLUMNS:
        del reply[name]
    del reply["response"]["content"]
    return write_json(reply)


def left_out_text(turn: str) -> str:
    """An expression over the alias of a turn's row: the text that its stored reply does not have."""
    return f"""
        CASE WHEN {turn}.reply IS NOT NULL THEN (
            SELECT m.content FROM messages m
            WHERE m.session_id = {turn}.session_id AND m.position = 2 * {turn}.position + 1) END
    """


def whole_reply(stored: str, text: str, turn: Mapping[str, Any]) -> JsonObject:
    """The payload of the turn's ``turn.completed``: ``text`` by ``left_out_text``, ``turn`` by its decoded columns."""
    reply: JsonObject = read_json(stored)
    return {**{name: turn[name] for name in _COLUMNS}, **reply, "response": {"content": text, **reply["response"]}}
