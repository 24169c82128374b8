"""Finds what agents are called, also deleted ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aes_client import Client

# A report must not wait for the reading of a long timeline: a page looks at 5,000 events.
_PAGES = 20
_SESSIONS = 200


def name_agents(client: Client, agent_ids: Iterable[str]) -> dict[str, str]:
    """Returns a name for each agent; that of a deleted one comes from its events or sessions, if any are left.

    A name of several agents is followed by the id. Returns nothing when the key may not read agents.
    """
    from aes_client import PermissionDeniedError

    wanted = set(agent_ids)
    names: dict[str, str] = {}
    if not wanted:
        return names
    try:
        present = {agent.id: agent.name for agent in client.agents.list()}
    except PermissionDeniedError:
        return names
    former: dict[str, str] = {}
    for find in (_names_in_events, _names_in_sessions):
        if missing := wanted - present.keys() - former.keys():
            with suppress(PermissionDeniedError):
                former |= find(client, missing)
    for agent_id in wanted:
        if agent_id in present:
            names[agent_id] = present[agent_id]
        else:
            names[agent_id] = f"{former[agent_id]} (deleted)" if agent_id in former else f"deleted agent {agent_id}"
    uses = Counter(names.values())
    return {agent_id: name if uses[name] == 1 else f"{name} {agent_id}" for agent_id, name in names.items()}


def _names_in_events(client: Client, missing: set[str]) -> dict[str, str]:
    """Reads the newest creations and changes of agents."""
    found: dict[str, str] = {}
    query = {"type": "agent.created,agent.updated", "order": "desc", "limit": 200}
    for _ in range(_PAGES):
        page = client.request("GET", "/events/", query=query)
        for event in page["events"]:
            agent = event["data"]["agent"]
            if agent["id"] in missing:
                found.setdefault(agent["id"], agent["name"])
        if not page["has_more"] or len(found) == len(missing):
            break
        query["before"] = page["next"]
    return found


def _names_in_sessions(client: Client, missing: set[str]) -> dict[str, str]:
    """Reads the newest sessions, which keep the configuration that they were made with."""
    found: dict[str, str] = {}
    for session in islice(client.sessions.list(), _SESSIONS):
        name = session.agent_config.get("name")
        if session.agent_id in missing and name:
            found.setdefault(session.agent_id, name)
    return found
