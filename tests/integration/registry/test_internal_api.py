from typing import Any

import pytest

from libs.contracts.identifiers import new_id
from libs.contracts.identity import Scope
from libs.contracts.resources.agents import CreateAgent
from tests.integration.registry.conftest import Registry
from tests.support.registry import configuration, identity

COLLEAGUE = identity("user-2")
READER = identity("user-2", scopes=[Scope.COMPANY_READ])
STRANGER = identity("user-1", company="company-2", scopes=[Scope.COMPANY_READ, Scope.COMPANY_WRITE])


async def create(registry: Registry, **changes: Any) -> dict[str, Any]:
    agent_id = new_id()
    await registry.dispatch(CreateAgent(agent_id=agent_id, agent=configuration(**changes)))
    agent: dict[str, Any] = (await registry.get(f"/internal/agents/{agent_id}")).json()
    return agent


async def test_everyone_sees_what_is_theirs_to_see(registry: Registry) -> None:
    private = await create(registry, name="Private")
    shared = await create(registry, name="Shared", is_shared=True)
    public = await create(registry, name="Public", is_public=True)

    async def names(caller: Any) -> list[str]:
        return [agent["name"] for agent in (await registry.get("/internal/agents", caller)).json()]

    assert await names(identity()) == ["Public", "Shared", "Private"]
    assert await names(COLLEAGUE) == ["Public", "Shared"]
    assert await names(READER) == ["Public", "Shared", "Private"]
    assert await names(STRANGER) == []
    for agent in (private, shared, public):
        for path in (agent["id"], f"{agent['id']}/versions", f"by-key/{agent['agent_key']}"):
            response = await registry.get(f"/internal/agents/{path}", STRANGER)
            assert (response.status_code, response.json()["error"]["type"]) == (404, "not_found_error")


async def test_public_principals_find_public_agents_with_origins_of_any_company(registry: Registry) -> None:
    origins = ["https://shop.example"]
    found = await create(registry, name="Open", is_public=True, allowed_origins=origins)
    hidden = [
        await create(registry, name="Private", allowed_origins=origins),
        await create(registry, name="Shared", is_shared=True, allowed_origins=origins),
        await create(registry, name="Public without origins", is_public=True),
    ]

    answer = await registry.get(f"/internal/agents/public/{found['agent_key']}", STRANGER)

    assert (answer.status_code, answer.json()) == (200, found)
    for key in (*(agent["agent_key"] for agent in hidden), "unknown"):
        answer = await registry.get(f"/internal/agents/public/{key}", STRANGER)
        assert (answer.status_code, answer.json()["error"]["type"]) == (404, "not_found_error")
    # Where no page is involved, origins do not matter.
    answers = [
        await registry.get(f"/internal/agents/public/{agent['agent_key']}", STRANGER, in_web_pages=False)
        for agent in hidden
    ]
    assert [answer.status_code for answer in answers] == [404, 404, 200]


async def test_the_list_is_whole_unless_a_page_is_asked_for(registry: Registry) -> None:
    for number in range(60):
        await create(registry, name=f"Agent {number}")

    page = (await registry.get("/internal/agents", limit=2, offset=1)).json()

    assert len((await registry.get("/internal/agents")).json()) == 60
    assert [agent["name"] for agent in page] == ["Agent 58", "Agent 57"]
    assert (await registry.get("/internal/agents", limit=0)).status_code == 422


@pytest.mark.parametrize("path", ["nonsense", "by-key/none", f"{new_id()}/versions/1.0.0"])
async def test_unknown_and_malformed_names_are_not_found(registry: Registry, path: str) -> None:
    response = await registry.get(f"/internal/agents/{path}")

    assert (response.status_code, response.json()["error"]["type"]) == (404, "not_found_error")


async def test_a_caller_must_be_named(registry: Registry) -> None:
    response = await registry.http.get("/internal/agents")

    assert (response.status_code, response.json()["error"]["type"]) == (401, "authentication_error")


async def test_validation_without_the_runtime_still_checks_the_form(registry: Registry) -> None:
    sound = await registry.post("/internal/agents/validate", configuration())
    broken = await registry.post("/internal/agents/validate", configuration(agent_type="llm_agnet"))
    nothing = await registry.post("/internal/agents/validate", ["hello"])

    assert (sound.status_code, sound.json()["valid"]) == (200, True)
    assert [warning["type"] for warning in sound.json()["warnings"]] == ["not_checked"]
    assert broken.json()["valid"] is False
    assert broken.json()["errors"][0]["hint"] == "did you mean 'llm_agent'?"
    assert (nothing.status_code, nothing.json()["error"]["type"]) == (422, "validation_error")


async def test_a_configuration_is_normalized_as_it_is_stored(registry: Registry) -> None:
    agent = await create(registry)

    by_body = (await registry.post("/internal/agents/normalize", configuration())).json()
    by_id = (await registry.post("/internal/agents/normalize", {"agent_id": agent["id"]})).json()
    by_key = (await registry.post("/internal/agents/normalize", {"agent_key": agent["agent_key"]})).json()

    stored = {"agent_config": agent["system_config"], "config_hash": agent["config_hash"]}
    assert by_body == {**stored, "agent_id": None}
    assert by_id == by_key == {**stored, "agent_id": agent["id"]}


@pytest.mark.parametrize(
    ("body", "status", "loc"),
    [
        ({"agent_id": "nonsense"}, 404, None),
        ({"agent_key": "nonsense"}, 404, None),
        ({"agent_id": 4}, 422, ["agent_id"]),
        ({"agent_id": "a", "agent_key": "b"}, 422, ["agent_key"]),
        ({"agent_id": None}, 422, ["agent_key"]),
        ({"agent_id": "a", "name": "b"}, 422, ["name"]),
        ({"name": "b"}, 422, ["agent_type"]),
        ({}, 422, []),
        ([], 422, []),
    ],
)
async def test_what_cannot_be_normalized(registry: Registry, body: Any, status: int, loc: list[str] | None) -> None:
    response = await registry.post("/internal/agents/normalize", body)

    assert response.status_code == status
    details = response.json()["error"].get("details")
    assert (details[0]["loc"] if details else None) == loc


async def test_an_agent_that_is_not_visible_cannot_be_used(registry: Registry) -> None:
    agent = await create(registry)

    for caller in (COLLEAGUE, STRANGER):
        for body in ({"agent_id": agent["id"]}, {"agent_key": agent["agent_key"]}):
            response = await registry.post("/internal/agents/normalize", body, caller)
            assert response.status_code == 404
