"""Stored agents, their versions and who sees them."""

import re

from tests.e2e.api import Api, check_error, configuration, unique
from tests.e2e.test_sessions import TIMESTAMP

FIELDS = {
    "id", "agent_key", "name", "architecture", "entry_point", "is_public", "is_shared", "origin_url", "owner",
    "company", "system_config", "version_number", "config_hash", "created_at", "updated_at",
}  # fmt: skip


async def test_an_agent_from_its_creation_to_its_end(api: Api) -> None:
    name = f"Head of {unique('Office')}"
    reply = await api.http.post("/agent/", json={**configuration(), "name": name, "entry_point": "greeting"})
    assert reply.status_code == 201
    agent = reply.json()
    assert set(agent) >= FIELDS
    path = f"/agent/{agent['id']}/"
    assert reply.headers["location"] == f"/api/v1{path}"
    assert re.fullmatch(name.lower().replace(" ", "-") + "-[a-z0-9]{6}", agent["agent_key"])
    assert (agent["name"], agent["architecture"], agent["entry_point"]) == (name, "llm_agent", "greeting")
    assert (agent["is_public"], agent["is_shared"], agent["origin_url"]) == (False, False, None)
    me = (await api.http.get("/me/")).json()
    assert (agent["owner"], agent["company"]) == (me["user_id"], me["company_id"])
    assert TIMESTAMP.fullmatch(agent["created_at"])
    assert (await api.http.get(path)).json() == agent
    assert agent in (await api.http.get("/agent/")).json()
    assert (await api.http.delete(path)).status_code == 204
    check_error(await api.http.get(path), 404, "not_found_error")
    check_error(await api.http.patch(path, json={"name": "x"}), 404, "not_found_error")


async def test_a_version_for_every_changed_configuration(api: Api) -> None:
    agent = (await api.http.post("/agent/", json=configuration())).json()
    path = f"/agent/{agent['id']}/"
    renamed = (await api.http.patch(path, json={"is_shared": True})).json()
    assert (renamed["is_shared"], renamed["version_number"]) == (True, agent["version_number"])
    assert renamed["config_hash"] == agent["config_hash"]
    changed = (await api.http.patch(path, json={"system_prompt": "Be brief."})).json()
    assert changed["config_hash"] != agent["config_hash"]
    assert changed["version_number"] != agent["version_number"]
    assert changed["updated_at"] > agent["updated_at"]
    versions = (await api.http.get(f"{path}versions/")).json()
    assert (versions["total"], versions["has_more"]) == (2, False)
    assert [version["version_number"] for version in versions["versions"]] == [
        changed["version_number"],
        agent["version_number"],
    ]
    first = (await api.http.get(f"{path}versions/{agent['version_number']}/")).json()
    assert first["system_config"] == agent["system_config"]
    for missing in ("9.9.9", "latest", "1..0", "1.0.0.0.0.0"):
        check_error(await api.http.get(f"{path}versions/{missing}/"), 404, "not_found_error")
