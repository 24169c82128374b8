"""The `aes usage` command."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.commands import Commands
from cli.connection import ApiKey, BaseUrl, connected
from cli.terminal import Json, print_json, print_table

if TYPE_CHECKING:
    from aes_client import Client

app = typer.Typer(cls=Commands, add_completion=False)
_FIELDS = {"day": "day", "agent": "agent_id", "model": "model", "user": "user_id", "key": "key_id"}
_NUMBERS = ("turns", "input_tokens", "output_tokens", "tool_calls", "seconds", "cost")


@app.callback(invoke_without_command=True)
def usage(
    begin: Annotated[
        str | None, typer.Option("--from", help="First day, or a timestamp.", show_default="30 days ago")
    ] = None,
    end: Annotated[str | None, typer.Option("--to", help="Last day, or a timestamp.", show_default="today")] = None,
    by: Annotated[
        str, typer.Option("--by", help="Comma-separated grouping fields: day, agent, model, user, key.")
    ] = "day",
    json_output: Json = False,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Show the usage of your turns or, with a key that has a `company:…` scope, of all the company's turns."""
    with connected(json_output, base_url, api_key) as client:
        report = client.usage(begin=begin, end=end, group_by=by.split(","))
        if json_output:
            print_json(report)
            return
        # Scripts get IDs; the table shows names.
        names = name_agents(client, [each.agent_id for each in report.usage if each.agent_id])
    fields = [_FIELDS[name] for name in report.group_by]
    groups = ["agent" if name == "agent_id" else name for name in fields]
    rows = [(*(_group(each, name, names) for name in fields), *_shown(each)) for each in report.usage]
    label = ("total", *("" for _ in groups[1:])) if groups else ()
    total = (*label, *_shown(report.totals))
    print_table((*groups, *(name.replace("_", " ") for name in _NUMBERS)), [*rows, total] if groups else [total])


def _group(sums: Any, field: str, agent_names: Mapping[str, str]) -> str:
    value = getattr(sums, field) or "-"
    return agent_names.get(value, value) if field == "agent_id" else value


def _shown(sums: Any) -> tuple[Any, ...]:
    cost = f"{sums.cost} + {sums.unpriced_turns} unpriced" if sums.unpriced_turns else sums.cost
    return (*(getattr(sums, name) for name in _NUMBERS[:-1]), cost)


def name_agents(client: Client, agent_ids: Iterable[str]) -> dict[str, str]:
    """Returns a unique name by agent ID, or an empty mapping if the key can't read agents."""
    from aes_client import PermissionDeniedError

    wanted = set(agent_ids)
    if not wanted:
        return {}
    try:
        present = {agent.id: agent.name for agent in client.agents.list()}
    except PermissionDeniedError:
        return {}
    former = _former_names(client) if wanted - present.keys() else {}
    deleted = {each: f"{former[each]} (deleted)" if each in former else f"deleted agent {each}" for each in wanted}
    names = {**deleted, **{each: present[each] for each in wanted & present.keys()}}
    uses = Counter(names.values())
    return {agent_id: name if uses[name] == 1 else f"{name} {agent_id}" for agent_id, name in names.items()}


def _former_names(client: Client) -> dict[str, str]:
    """Returns agents' names from one page of the newest events, so that a long timeline doesn't delay the report."""
    from aes_client import PermissionDeniedError

    query = {"type": "agent.created,agent.updated", "order": "desc", "limit": 200}
    try:
        agents = [event["data"]["agent"] for event in client.request("GET", "/events/", query=query)["events"]]
    except PermissionDeniedError:
        return {}
    return {agent["id"]: agent["name"] for agent in reversed(agents)}
