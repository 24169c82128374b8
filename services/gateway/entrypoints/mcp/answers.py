"""Converts the outcomes of turns into tool results, with instructions for the calling model."""

from typing import Any, Final

from libs.contracts.errors import Conflict, ErrorKind, ServiceError, dotted_path, error_from
from libs.contracts.replies import ExecuteReply
from libs.contracts.resources.turns import RequiredAction, Turn
from services.gateway.entrypoints.mcp.schemas import AgentAnswer, ArtifactLink

_MAY_PASS: Final = (ErrorKind.RATE_LIMIT, ErrorKind.UNAVAILABLE, ErrorKind.TIMEOUT)


def artifact_uri(artifact_id: str) -> str:
    return f"aes://artifacts/{artifact_id}"


def artifact_link(record: dict[str, Any]) -> ArtifactLink:
    """Returns a link to an artifact. ``record``: the artifact, as the reply lists it."""
    named = {name: record[name] for name in ("artifact_id", "name", "content_type")}
    return ArtifactLink(**named, uri=artifact_uri(record["artifact_id"]))


def completed(reply: ExecuteReply) -> AgentAnswer:
    return AgentAnswer(
        status="completed",
        session_id=reply.session_id,
        turn_id=reply.turn_id,
        reply=reply.response.content,
        output=reply.response.output,
        citations=reply.response.citations,
        artifacts=[artifact_link(each) for each in reply.response.artifacts],
    )


def state_of(turn: Turn) -> AgentAnswer:
    """Returns a turn's current state as an answer. Raises an error if the turn ended without a reply."""
    if turn.reply is not None:
        return completed(turn.reply)
    if turn.error is not None:
        raise error_from(turn.error)
    if turn.status not in ("waiting", "queued", "running"):
        raise Conflict("The turn was cancelled.")
    return AgentAnswer(
        status=turn.status,
        session_id=turn.session_id,
        turn_id=turn.turn_id,
        required_actions=turn.required_actions,
    )


def next_step(answer: AgentAnswer) -> str | None:
    """Returns instructions for getting the reply, or None for a completed turn."""
    if answer.status == "completed":
        return None
    later = f"Call read_session with session_id {answer.session_id} later to get the reply."
    if answer.status != "waiting":
        return f"The agent is still working in the background. {later}"
    return "\n".join(["The agent is waiting for:", *(_needed(answer, each) for each in answer.required_actions), later])


def _needed(answer: AgentAnswer, action: RequiredAction) -> str:
    call = f"{action.tool_call.name}({action.tool_call.arguments})"
    path = f"/api/v1/runtime/{answer.session_id}/turns/{answer.turn_id}/actions/{action.action_id}/"
    if action.kind == "approval":
        what = f"approval of this call: {call}"
        how = '{"decision": "approve"} or {"decision": "deny", "reason": …}, or use the studio or `aes actions`'
    else:
        what, how = f"the result of this call, which the client executes: {call}", '{"output": …} or {"error": …}'
    return f"- {what}, until {action.expires_at}. To answer, POST to {path} {how}."


def failure_text(problem: ServiceError) -> str:
    """Returns an error as text: its type and message, the invalid fields, and when to retry."""
    info = problem.info()
    fields = [
        f"- {dotted_path(each.loc)}: {each.message}" + (f" ({each.hint})" if each.hint else "")
        for each in info.details or ()
        if each.loc
    ]
    again = [f"Try again in {info.retry_after or 2} s."] if info.type in _MAY_PASS else []
    return "\n".join([f"{info.type}: {info.message}", *fields, *again])
