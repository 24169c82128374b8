"""Step 6: a turn that waits for a person and for a program, through a restart of the runtime."""

import json
import time
from collections.abc import Callable, Sequence

from aes_client import ActionRequired, Client, TurnHandle
from aes_client.models import RequiredAction
from aes_client.runners import SyncRunner

from cli.demo.conversation import Talk
from cli.demo.materials import Agent
from cli.demo.screen import Screen
from cli.demo.script import FREE_SEATS
from cli.demo.turn_view import TurnView
from cli.terminal import call_of
from deploy.local.errors import StackError

Restart = Callable[[], None]
"""Restarts the runtime, and returns when it works again."""
Turn = TurnHandle[SyncRunner]


def hold(screen: Screen, client: Client, agent: Agent, *, step: int, letter: str, restart: Restart | None) -> Talk:
    """Opens a session, sends it a message, and answers what its turn is waiting for. No ``restart``: none is made."""
    screen.heading(step, agent.part.title, "POST /api/v1/runtime/…/actions/{action_id}/")
    talk = Talk(letter, client.sessions.create(config=agent.configuration), agent)
    screen.line(f"session {letter}  {talk.session.session_id}", "dim")
    screen.line(f"model      {agent.model}", "dim")
    for question in agent.part.questions:
        screen.blank()
        screen.said("you", question)
        _ask(screen, talk, question, restart)
    return talk


def _ask(screen: Screen, talk: Talk, question: str, restart: Restart | None) -> None:
    try:
        turn = talk.session.turn(talk.session.execute(question).turn_id)
    except ActionRequired as waiting:
        turn = talk.session.turn(waiting.turn_id)
        _show_open(screen, waiting.actions)
        if restart is not None:
            _restart(screen, turn, restart)
    while (state := turn.wait()).status == "waiting":
        for action in state.required_actions:
            _resolve(screen, turn, action)
    view = TurnView(screen)
    for event in turn.stream():
        view.show(event)
    talk.turns.append(view.finish(question))


def _show_open(screen: Screen, actions: Sequence[RequiredAction]) -> None:
    screen.said("", "202: the turn is waiting, in no process, for")
    for action in actions:
        wanted = "a person to allow" if action.kind == "approval" else "this program to run"
        screen.said("", f"{wanted} {call_of(action)}", "yellow")


def _restart(screen: Screen, turn: Turn, restart: Restart) -> None:
    began = time.monotonic()
    restart()
    status = turn.get().status
    if status != "waiting":
        raise StackError(f"The turn did not wait through the restart: it is {status}.", "See: ./aes logs runtime")
    screen.good(f"runtime restarted in {time.monotonic() - began:.1f} s; the turn is still waiting")


def _resolve(screen: Screen, turn: Turn, action: RequiredAction) -> None:
    if action.kind == "approval":
        turn.resolve(action, decision="approve")
        screen.good(f"allowed {call_of(action)}")
        return
    output = {**action.tool_call.arguments, "free_seats": FREE_SEATS}
    turn.resolve(action, output=output)
    screen.good(f"gave the result of {action.tool_call.name}: {json.dumps(output)}")
