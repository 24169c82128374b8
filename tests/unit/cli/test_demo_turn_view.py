import io
from typing import Any

import pytest
from aes_client import StreamedEvent, models
from rich.console import Console

from cli.demo.view import Screen, TurnView
from deploy.local.errors import StackError
from tests.support.cli_service import document


def event(kind: str, **data: Any) -> StreamedEvent:
    model = models.TURN_EVENTS[kind]
    return StreamedEvent("1", kind, model.model_validate(document(model, **data)))


STARTED = event("turn.tool_call.started", step=1, call_id="c1", name="calculator", arguments={"expression": "6 * 7"})
ENDED = event("turn.tool_call.completed", step=1, call_id="c1", name="calculator", output="42")


def delta(text: str, step: int = 1) -> StreamedEvent:
    return event("turn.output_text.delta", step=step, text=text)


def completed(content: str) -> StreamedEvent:
    return event("turn.completed", response={"content": content}, usage={"input_tokens": 3, "output_tokens": 2})


def shown(*events: StreamedEvent) -> str:
    out = io.StringIO()
    view = TurnView(Screen(console=Console(file=out, width=80, highlight=False)))
    for event in events:
        view.show(event)
    return out.getvalue()


def test_text_appears_as_it_comes_and_once() -> None:
    assert shown(delta("Forty "), delta("two.")).split() == ["agent", "Forty"]
    assert shown(delta("Forty "), delta("two."), completed("Forty two.")).count("Forty") == 1


def test_text_that_overtook_the_tool_result_waits_for_it() -> None:
    output = shown(STARTED, delta("It is 42.", step=2), ENDED, completed("It is 42."))
    assert output.index("calculator") < output.index("→ 42") < output.index("It is 42.")


def test_text_that_overtook_the_call_itself_waits_as_well() -> None:
    output = shown(delta("It is 42.", step=2), STARTED, ENDED, completed("It is 42."))
    assert output.index("calculator") < output.index("→ 42") < output.index("It is 42.")


def test_results_of_calls_are_shown_in_the_order_of_the_calls() -> None:
    other = {"step": 1, "call_id": "c2", "name": "free_seats"}
    begun = event("turn.tool_call.started", arguments={}, **other)
    ended = event("turn.tool_call.completed", output="12", **other)
    output = shown(STARTED, begun, ended, delta("Yes.", step=2), ENDED, completed("Yes."))
    assert output.index("→ 42") < output.index("→ 12") < output.index("Yes.")


def test_lost_pieces_are_made_good_by_the_final_text() -> None:
    assert "The whole reply." in shown(delta("The who"), completed("The whole reply."))


def test_text_of_an_attempt_that_was_given_up_is_dropped() -> None:
    restarted = event("turn.restarted", attempt=2, resumed_from_step=1)
    output = shown(delta("stale", step=2), restarted, delta("fresh", step=2), completed("fresh"))
    assert "stale" not in output
    assert output.count("fresh") == 1


def test_a_failed_turn_says_why_and_what_to_do() -> None:
    error = {"type": "model_error", "message": "the provider refused the key"}
    with pytest.raises(StackError) as failure:
        shown(event("turn.failed", error=error))
    assert "the provider refused the key" in failure.value.problem
    assert "key" in failure.value.remedy
