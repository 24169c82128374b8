"""Kinds of waits, and the rules for answers to them."""

from typing import Any, get_args

import pytest

from libs.contracts.errors import Conflict, ValidationFailed
from libs.contracts.resources.actions import ResolveAction
from libs.contracts.resources.turns import ActionKind
from services.runtime.domain.conversation import ToolCall, ToolResult
from services.runtime.domain.tools import LONGEST_RESULT, ToolDefinition
from services.runtime.domain.waits import Answer, LockedWait, call_hash, require_open
from services.runtime.domain.waits.kinds import KINDS, wait_for


def wait(kind: Any = "approval", **changes: Any) -> LockedWait:
    fields = {"state": "open", "decision": None, "answer_hash": None, "has_expired": False}
    payload = KINDS[kind].payload(ToolCall("c1", "pay", {}))
    return LockedWait("a", kind, 1, "c1", payload, **{**fields, **changes})  # type: ignore[arg-type]


def answer(kind: Any, **given: Any) -> Answer:
    return KINDS[kind].answer(ResolveAction(session_id="s", turn_id="t", action_id="a", **given))


def told(kind: Any, **given: Any) -> ToolResult:
    result = KINDS[kind].result(wait(kind), answer(kind, **given))
    assert result is not None
    return result


def test_the_kinds_are_those_of_the_contracts() -> None:
    assert set(KINDS) == set(get_args(ActionKind))
    assert all(kind.name == name for name, kind in KINDS.items())


def test_a_call_waits_for_a_person_or_for_its_client() -> None:
    expected: list[tuple[bool, Any, str | None]] = [
        (False, "never", None),
        (False, "always", "approval"),
        (True, "never", "tool_result"),
        (True, "always", "tool_result"),
    ]
    for run_by_client, approval, kind in expected:
        definition = ToolDefinition("t", "", {}, safe_to_repeat=True, approval=approval, run_by_client=run_by_client)
        found = wait_for(definition)
        assert (None if found is None else found.name) == kind


def test_a_denial_is_a_failed_result_with_its_reason_and_an_approval_has_no_result() -> None:
    assert KINDS["approval"].result(wait(), answer("approval", decision="approve")) is None
    for reason, said in ((None, "denied it."), ("too dear", "denied it. Reason: too dear")):
        result = told("approval", decision="deny", reason=reason)
        assert (result.status, result.call_id, result.name) == ("failed", "c1", "pay")
        assert result.output.endswith(said)


def test_an_output_is_text_or_json_and_cut_as_those_of_other_tools() -> None:
    for output, text in (("plain", "plain"), ({"b": 1}, '{"b":1}'), (None, "null"), ([], "[]")):
        result = told("tool_result", output=output)
        assert (result.status, result.output) == ("completed", text)
    for given in ({"output": "x" * 30_000}, {"error": "x" * 30_000}):
        cut = "x" * LONGEST_RESULT + "\n[truncated: 30000 characters in total]"
        assert told("tool_result", **given).output == cut


def test_an_answer_of_the_other_kind_is_refused() -> None:
    for kind, given in (("approval", "output"), ("approval", "error"), ("tool_result", "decision")):
        with pytest.raises(ValidationFailed) as refused:
            answer(kind, **{given: "approve"})
        assert refused.value.details
        assert refused.value.details[0].loc == ["decision"]


def test_answers_are_told_apart_by_all_that_they_say() -> None:
    answers = [
        answer("approval", decision="approve"),
        answer("approval", decision="deny"),
        answer("approval", decision="deny", reason="no"),
        answer("tool_result", output="no"),
        answer("tool_result", output=None),
        answer("tool_result", error="no"),
    ]
    assert len({each.hash for each in answers}) == len(answers)
    assert answer("approval", decision="approve", reason="ignored").hash == answers[0].hash
    assert answer("tool_result", output={"a": 1, "b": 2}).hash == answer("tool_result", output={"a": 1, "b": 2}).hash


def test_what_is_not_open_takes_no_answer() -> None:
    refused: list[tuple[dict[str, Any], str]] = [
        ({"state": "resolved", "decision": "deny"}, "already received a different answer"),
        ({"state": "resolved", "decision": None}, "already received a different answer"),
        ({"state": "resolved", "decision": "expired"}, "expired"),
        ({"has_expired": True}, "expired"),
        ({"state": "closed", "has_expired": True}, "The turn is already cancelled"),
    ]
    for changes, said in refused:
        with pytest.raises(Conflict, match=said):
            require_open(wait(**changes), "cancelled")
    require_open(wait(), "waiting")


def test_an_expiry_is_a_failed_result() -> None:
    expected: dict[Any, str] = {
        "approval": "The call wasn't made: nobody approved or denied it in time.",
        "tool_result": "The client didn't send a result in time.",
    }
    for kind, said in expected.items():
        expired = wait(kind, has_expired=True)
        answer = KINDS[kind].own_answer(expired)
        result = KINDS[kind].result(expired, answer)
        assert (answer.decision, result.status, result.output) == ("expired", "failed", said)


def test_a_call_is_known_by_its_arguments_whatever_their_order() -> None:
    call = ToolCall("c1", "pay", {"to": "bob", "sum": 100})
    assert call_hash(call) == call_hash(ToolCall("c1", "pay", {"sum": 100, "to": "bob"}))
    others = [
        ToolCall("c2", "pay", call.arguments),
        ToolCall("c1", "gift", call.arguments),
        ToolCall("c1", "pay", {"to": "bob", "sum": 1000}),
        ToolCall("c1", "pay", {"to": "bob", "sum": "100"}),
    ]
    assert call_hash(call) not in {call_hash(other) for other in others}
    # The first one as it is, the second as it was stored.
    assert call_hash(ToolCall("c", "pay", {"to": "a\x00b"})) == call_hash(ToolCall("c", "pay", {"to": "a\ufffdb"}))
