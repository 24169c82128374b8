"""Step 6 of the demo: what a turn is waiting for is shown, outlasts a restart, and is answered."""

import io
from typing import Any

import httpx
import orjson
import pytest
from aes_client import models
from rich.console import Console

from cli.demo import steps
from cli.demo.view import Screen
from deploy.local.errors import StackError
from tests.support.cli_service import document
from tests.support.client_service import FakeService, blocking, event, events

PLACE = "/runtime/s1/turns/t1/"


def action(number: int, kind: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    call = {"id": f"c{number}", "name": name, "arguments": arguments}
    return document(models.RequiredAction, action_id=f"a{number}", kind=kind, tool_call=call)


class Service(FakeService):
    """The turn waits for each round of actions in its turn. ``status``: that of a turn which waits."""

    def __init__(self, *rounds: list[dict[str, Any]], status: str = "waiting") -> None:
        super().__init__()
        self.rounds = list(rounds)
        self.answers: dict[str, Any] = {}
        self.status = status
        self.reply = document(models.ExecuteReply, turn_id="t1", response={"content": "735"})
        self.on("POST", "/sessions/", document(models.SessionCreatedReply, session_id="s1"))
        self.on("POST", "/runtime/s1/execute/", lambda _: self._executed())
        self.on("GET", PLACE, lambda _: self._turn())
        self.on("GET", f"{PLACE}events/", events(event("1", "turn.completed", **self.reply)))
        for each in (action for actions in rounds for action in actions):
            self.on("POST", f"{PLACE}actions/{each['action_id']}/", self._answered)

    def _executed(self) -> httpx.Response:
        if not self.rounds:
            return httpx.Response(200, json=self.reply)
        waits = {"status": "waiting", "required_actions": self.rounds[0]}
        return httpx.Response(202, json=document(models.TurnAccepted, turn_id="t1", session_id="s1", **waits))

    def _turn(self) -> dict[str, Any]:
        if not self.rounds:
            return document(models.Turn, status="completed", reply=self.reply)
        return document(models.Turn, status=self.status, required_actions=self.rounds[0])

    def _answered(self, request: httpx.Request) -> dict[str, Any]:
        self.answers[request.url.path.split("/")[-2]] = orjson.loads(request.content)
        if set(self.answers) >= {each["action_id"] for each in self.rounds[0]}:
            self.rounds.pop(0)
        return self._turn()


def hold(service: Service, restart: Any = None) -> tuple[Any, str]:
    out = io.StringIO()
    screen = Screen(console=Console(file=out, width=80, highlight=False))
    talk = steps.answer_actions(screen, blocking(service), steps.Agent.load(steps.CASHIER, None), restart)
    return talk, out.getvalue()


SUM = action(1, "approval", "calculator", {"expression": "3 * 245"})
SEATS = action(2, "tool_result", "free_seats", {"crossing": 4711})


def test_it_allows_one_call_and_makes_the_other_after_a_restart() -> None:
    restarts: list[int] = []
    service = Service([SUM, SEATS])
    talk, shown = hold(service, lambda: restarts.append(len(service.answers)))
    assert service.answers == {"a1": {"decision": "approve"}, "a2": {"output": {"crossing": 4711, "free_seats": 118}}}
    assert restarts == [0], "once, before anything is answered"
    assert len(service.calls("POST", "/runtime/s1/execute/")) == 1
    for told in ("a person to approve calculator", "this program to run free_seats", "still waiting", "735"):
        assert told in shown
    assert talk.turns[0]["turn_id"] == "t1"
    assert max(map(len, shown.splitlines())) <= 80


def test_a_turn_may_wait_twice_and_nothing_is_restarted_elsewhere() -> None:
    service = Service([SUM], [SEATS])
    _, shown = hold(service)
    assert set(service.answers) == {"a1", "a2"}
    assert "restarted" not in shown


def test_a_model_that_calls_nothing_just_answers() -> None:
    talk, _ = hold(Service(), lambda: pytest.fail("nothing to outlast"))
    assert talk.turns[0]["content"] == "735"


def test_a_wait_that_is_lost_is_a_failure() -> None:
    with pytest.raises(StackError, match="status is failed"):
        hold(Service([SUM], status="failed"), lambda: None)
