"""The reply as the execute response shows it."""

from __future__ import annotations

from services.runtime.domain.agent_ports import AgentReply, MadeCall
from services.runtime.domain.conversation import JsonObject
from services.runtime.domain.conversation_json import artifact_to_json, citation_to_json


def reply_to_json(reply: AgentReply) -> JsonObject:
    """The `response` object: content, tool_calls, citations, artifacts."""
    return {
        "content": reply.text,
        "tool_calls": [made_call_to_json(made) for made in reply.tool_calls],
        "citations": [citation_to_json(citation) for citation in reply.citations],
        "artifacts": [artifact_to_json(artifact) for artifact in reply.artifacts],
    }


def made_call_to_json(made: MadeCall) -> JsonObject:
    return {
        "id": made.call.id,
        "name": made.call.name,
        "arguments": made.call.arguments,
        "status": made.result.status,
        "output": made.result.output,
    }
