"""Step 6 of the demo: what a turn is waiting for is shown, outlasts a restart, and is answered."""

import io
from collections.abc import Iterator
from typing import Any

import pytest
from rich.console import Console

from cli.demo import materials, waiting
from cli.demo.screen import Screen
from cli.demo.sse import ServerEvent
from deploy.local.errors import StackError


def action(number: int, kind: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    call = {"id": f"c{number}", "name": name, "arguments": arguments}
    return {"action_id": f"a{number}", "kind": kind, "tool_call": call, "expires_at": ""}


class FakeApi:
    """The turn waits for each round of actions in its turn."""

    def __init__(self, *rounds: list[dict[str, Any]], status: str = "waiting") -> None:
        self.rounds = list(rounds)
        self.answers: dict[str, Any] = {}
        self.keys: set[str | None] = set()
        self.status = status

    def post(self, path: str, body: Any, *, idempotency_key: str | None = None) -> dict[str, Any]:
        if path == "/sessions/":
            return {"session_id": "s1"}
        if path.endswith("/execute/"):
            self.keys.add(idempotency_key)
            if self.rounds:
                return {"status": "waiting", "turn_id": "t1", "required_actions": self.rounds[0]}
            return {"success": True, "turn_id": "t1"}
        assert path.startswith("/runtime/s1/turns/t1/actions/")
        self.answers[path.split("/")[-2]] = body
        if set(self.answers) >= {each["action_id"] for each in self.rounds[0]}:
            self.rounds.pop(0)
        return {}

    def get(self, path: str) -> dict[str, Any]:
        assert path == "/runtime/s1/turns/t1/"
        return {"status": self.status}

    def follow(self, path: str) -> Iterator[ServerEvent]:
        assert path == "/runtime/s1/turns/t1/events/"
        yield ServerEvent("turn.action_required", {})
        reply = {
            "turn_id": "t1",
            "response": {"content": "735", "tool_calls": [], "citations": [], "artifacts": []},
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
        yield ServerEvent("turn.completed", reply)


def hold(api: FakeApi, restart: Any = None) -> tuple[Any, str]:
    out = io.StringIO()
    screen = Screen(console=Console(file=out, width=80, highlight=False))
    agent = materials.load(None).cashier
    talk = waiting.hold(screen, api, agent, step=6, letter="D", restart=restart)  # type: ignore[arg-type]
    return talk, out.getvalue()


SUM = action(1, "approval", "calculator", {"expression": "3 * 245"})
SEATS = action(2, "tool_result", "free_seats", {"crossing": 4711})


def test_it_allows_one_call_and_makes_the_other_after_a_restart() -> None:
    restarts: list[int] = []
    api = FakeApi([SUM, SEATS])
    talk, shown = hold(api, lambda: restarts.append(len(api.answers)))
    assert api.answers == {"a1": {"decision": "approve"}, "a2": {"output": {"crossing": 4711, "free_seats": 118}}}
    assert restarts == [0], "once, before anything is answered"
    assert len(api.keys) == 1
    for told in ("a person to allow calculator", "this program to run free_seats", "still waiting", "735"):
        assert told in shown
    assert talk.turns[0]["turn_id"] == "t1"
    assert max(map(len, shown.splitlines())) <= 80


def test_a_turn_may_wait_twice_and_nothing_is_restarted_elsewhere() -> None:
    api = FakeApi([SUM], [SEATS])
    _, shown = hold(api)
    assert set(api.answers) == {"a1", "a2"}
    assert "restarted" not in shown


def test_a_model_that_calls_nothing_just_answers() -> None:
    talk, _ = hold(FakeApi(), lambda: pytest.fail("nothing to outlast"))
    assert talk.turns[0]["content"] == "735"


def test_a_wait_that_is_lost_is_a_failure() -> None:
    with pytest.raises(StackError, match="it is failed"):
        hold(FakeApi([SUM], status="failed"), lambda: None)
