"""Step 6: a turn that waits for a person and for a program, through a restart of the runtime."""

import json
import time
from collections.abc import Callable
from typing import Any

from cli.demo.api import Api
from cli.demo.conversation import Talk
from cli.demo.materials import Agent
from cli.demo.screen import Screen
from cli.demo.script import FREE_SEATS
from cli.demo.turn_view import TurnView
from deploy.local.errors import StackError

Restart = Callable[[], None]
"""Restarts the runtime, and returns when it works again."""


def hold(screen: Screen, api: Api, agent: Agent, *, step: int, letter: str, restart: Restart | None) -> Talk:
    """Opens a session, sends it a message, and answers what its turn is waiting for. No ``restart``: none is made."""
    screen.heading(step, agent.part.title, "POST /api/v1/runtime/…/actions/{action_id}/")
    talk = Talk(letter, api.post("/sessions/", agent.configuration)["session_id"], agent)
    screen.line(f"session {letter}  {talk.session_id}", "dim")
    screen.line(f"model      {agent.model}", "dim")
    for question in agent.part.questions:
        screen.blank()
        screen.said("you", question)
        _ask(screen, api, talk, question, restart)
    return talk


def _ask(screen: Screen, api: Api, talk: Talk, question: str, restart: Restart | None) -> None:
    def execute() -> Any:
        # The same key: the same turn, whose reply is the answer once there is one.
        return api.post(
            f"/runtime/{talk.session_id}/execute/", {"content": question}, idempotency_key=f"demo-{talk.session_id}"
        )

    view = TurnView(screen)
    answer = execute()
    if answer.get("status") == "waiting":
        _show_open(screen, answer["required_actions"])
        if restart is not None:
            _restart(screen, api, talk, answer["turn_id"], restart)
    while answer.get("status") == "waiting":
        for action in answer["required_actions"]:
            _resolve(screen, api, talk, answer["turn_id"], action)
        answer = execute()
    for event in api.follow(f"/runtime/{talk.session_id}/turns/{answer['turn_id']}/events/"):
        view.show(event)
    talk.turns.append(view.finish(question))


def _show_open(screen: Screen, actions: list[dict[str, Any]]) -> None:
    screen.said("", "202: the turn is waiting, in no process, for")
    for action in actions:
        wanted = "a person to allow" if action["kind"] == "approval" else "this program to run"
        screen.said("", f"{wanted} {_call(action)}", "yellow")


def _restart(screen: Screen, api: Api, talk: Talk, turn_id: str, restart: Restart) -> None:
    began = time.monotonic()
    restart()
    status = api.get(f"/runtime/{talk.session_id}/turns/{turn_id}/")["status"]
    if status != "waiting":
        raise StackError(f"The turn did not wait through the restart: it is {status}.", "See: ./aes logs runtime")
    screen.good(f"runtime restarted in {time.monotonic() - began:.1f} s; the turn is still waiting")


def _resolve(screen: Screen, api: Api, talk: Talk, turn_id: str, action: dict[str, Any]) -> None:
    place = f"/runtime/{talk.session_id}/turns/{turn_id}/actions/{action['action_id']}/"
    if action["kind"] == "approval":
        api.post(place, {"decision": "approve"})
        screen.good(f"allowed {_call(action)}")
        return
    output = {**action["tool_call"]["arguments"], "free_seats": FREE_SEATS}
    api.post(place, {"output": output})
    screen.good(f"gave the result of {action['tool_call']['name']}: {json.dumps(output)}")


def _call(action: dict[str, Any]) -> str:
    call = action["tool_call"]
    return f"{call['name']} {json.dumps(call['arguments'], ensure_ascii=False)}"
