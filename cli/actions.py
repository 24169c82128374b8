"""The `aes actions` commands."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.commands import Commands
from cli.connection import ApiKey, BaseUrl, connected
from cli.terminal import Json, call_of, failures_explained, local_time, shortened, show, show_table
from deploy.local.errors import StackError

if TYPE_CHECKING:
    from aes_client import Client
    from aes_client.models import OpenAction

app = typer.Typer(cls=Commands, no_args_is_help=True, add_completion=False)
ActionId = Annotated[str, typer.Argument(help="ID of the action, from `aes actions list`.")]
_WIDEST_CALL = 100


@app.command("list")
def list_open(
    kind: Annotated[str | None, typer.Option("--kind", help="Filter by kind: approval or tool_result.")] = None,
    session: Annotated[str | None, typer.Option("--session", help="Filter by session ID.")] = None,
    json_output: Json = False,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
) -> None:
    """List the open actions of your sessions, oldest first."""
    with connected(json_output, base_url, api_key) as client:
        # The service's error lists the valid kinds.
        found = list(client.actions.list(kind=kind, session_id=session))  # type: ignore[arg-type]
    rows = [
        (each.action_id, each.kind, local_time(each.expires_at), shortened(call_of(each), _WIDEST_CALL))
        for each in found
    ]
    show_table(json_output, {"actions": found}, ("id", "kind", "expires", "call"), rows)


@app.command()
def approve(action_id: ActionId, json_output: Json = False, base_url: BaseUrl = None, api_key: ApiKey = None) -> None:
    """Approve a tool call. It runs with exactly the arguments that `aes actions list` shows."""
    _answer(action_id, {"decision": "approve"}, json_output, base_url, api_key)


@app.command()
def deny(
    action_id: ActionId,
    reason: Annotated[str | None, typer.Option("--reason", help="Reason to give the model.")] = None,
    json_output: Json = False,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Deny a tool call."""
    because = {} if reason is None else {"reason": reason}
    _answer(action_id, {"decision": "deny", **because}, json_output, base_url, api_key)


@app.command()
def answer(
    action_id: ActionId,
    output: Annotated[str | None, typer.Option("--output", help="The call's result, as text.")] = None,
    output_json: Annotated[str | None, typer.Option("--output-json", help="The call's result, as JSON.")] = None,
    error: Annotated[str | None, typer.Option("--error", help="The error, if the call failed.")] = None,
    json_output: Json = False,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Submit the result of a tool call that you ran, with --output, --output-json or --error."""
    with failures_explained(json_output):
        given = _result_of(output, output_json, error)
    _answer(action_id, given, json_output, base_url, api_key)


def _result_of(output: str | None, output_json: str | None, error: str | None) -> dict[str, Any]:
    given: list[dict[str, Any]] = [
        {name: value} for name, value in (("output", output), ("error", error)) if value is not None
    ]
    if output_json is not None:
        try:
            given.append({"output": json.loads(output_json)})
        except ValueError as problem:
            raise StackError(f"--output-json isn't valid JSON: {problem}") from problem
    if len(given) != 1:
        wanted = "Specify exactly one of --output, --output-json and --error."
        raise StackError(wanted, 'For example: ./aes actions answer ACTION_ID --output "Seat 12A"')
    return given[0]


def _answer(action_id: str, body: dict[str, Any], json_output: bool, base_url: str | None, api_key: str | None) -> None:
    with connected(json_output, base_url, api_key) as client:
        action = _find(client, action_id)
        if action.kind == "tool_result" and "decision" in body:
            what = f"Action {action_id!r} needs the result of a tool call, not a decision."
            raise StackError(what, f"Submit it with: ./aes actions answer {action_id} --output TEXT")
        if action.kind == "approval" and "decision" not in body:
            what = f"Action {action_id!r} needs a decision, not a result."
            raise StackError(
                what, f"Decide with: ./aes actions approve {action_id}, or: ./aes actions deny {action_id}"
            )
        turn = client.actions.resolve(action, **body)
    left = len(turn.required_actions)
    show(json_output, turn, f"Turn {turn.turn_id} {f'still has open actions: {left}' if left else 'continues'}.")


def _find(client: Client, action_id: str) -> OpenAction:
    for action in client.actions.list():
        if action.action_id == action_id:
            return action
    raise StackError(f"There's no open action {action_id!r}.", "List open actions with: ./aes actions list")
