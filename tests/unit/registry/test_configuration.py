"""Configurations of agents and the keys of agents."""

import hashlib
import re
from datetime import UTC, datetime
from itertools import islice

import pytest

from libs.contracts.errors import PermissionDenied
from libs.contracts.identifiers import is_agent_key
from libs.contracts.identity import Scope
from libs.contracts.resources.agents import AgentConfiguration, UpdateAgentBody
from services.registry.domain.agent import AgentNotFound, StoredAgent, require_visible, require_writable
from services.registry.domain.agent_key import candidates, slug
from services.registry.domain.configuration import config_hash, next_version, normalised
from tests.support.registry import configuration, identity, stored_agent


def normal(**changes: object) -> dict[str, object]:
    return normalised(AgentConfiguration.model_validate(configuration(**changes)))


def test_defaults_are_written_out_and_open_settings_left_out() -> None:
    assert normal() == {
        "name": "Harbour desk",
        "agent_type": "llm_agent",
        "system_prompt": "Be brief.",
        "llm_config": {"model": "builtin:extractive"},
        "tools": [],
        "knowledge_bases": [],
    }


def test_the_hash_is_of_the_canonical_json() -> None:
    canonical = (
        '{"agent_type":"llm_agent","knowledge_bases":[],"llm_config":{"model":"builtin:extractive",'
        '"temperature":1},"name":"Größe","system_prompt":"Be brief.","tools":["a","b"]}'
    )

    found = config_hash(normal(name="Größe", llm_config={"temperature": 1.0}, tools=["a", "b", "a"]))

    assert found == hashlib.sha256(canonical.encode()).hexdigest()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"llm_config": {"temperature": 1}}, {"llm_config": {"temperature": 1.0}}),
        ({}, {"tools": [], "llm_config": {}}),
        ({"knowledge_bases": ["kb"]}, {"knowledge_bases": [{"id": "kb", "top_k": 5, "mode": "hybrid"}]}),
        ({}, {"tool_policies": {}, "client_tools": [], "output_schema": None}),
        ({}, {"tool_policies": {"*": {}}}),
    ],
)
def test_what_means_the_same_has_the_same_hash(one: dict[str, object], other: dict[str, object]) -> None:
    assert config_hash(normal(**one)) == config_hash(normal(**other))


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "Other"},
        {"agent_type": "react_agent"},
        {"system_prompt": ""},
        {"llm_config": {"temperature": 0}},
        {"tools": ["calculator"]},
        {"knowledge_bases": [{"id": "kb", "top_k": 6}]},
        {"tool_policies": {"calculator": {"approval": "always"}}},
        {"client_tools": [{"name": "open_door"}]},
        {"output_schema": {}},
    ],
)
def test_every_part_of_a_configuration_counts(changes: dict[str, object]) -> None:
    assert config_hash(normal(**changes)) != config_hash(normal())


@pytest.mark.parametrize(("before", "after"), [("1.0.0", "1.0.1"), ("1.0.9", "1.0.10")])
def test_next_version(before: str, after: str) -> None:
    assert next_version(before) == after


LATER = datetime(2026, 5, 5, tzinfo=UTC)
PRIVATE, SHARED, PUBLIC = stored_agent(), stored_agent(is_shared=True), stored_agent(is_public=True)
COLLEAGUE = identity("user-2")
COMPANY_READER = identity("user-2", scopes=[Scope.COMPANY_READ])
COMPANY_WRITER = identity("user-2", scopes=[Scope.COMPANY_WRITE])
STRANGER = identity("user-1", company="company-2", scopes=[Scope.COMPANY_READ, Scope.COMPANY_WRITE])


def changed(agent: StoredAgent, **changes: object) -> StoredAgent:
    return agent.changed(UpdateAgentBody.model_validate(changes), LATER)


@pytest.mark.parametrize("agent", [SHARED, PUBLIC])
def test_shared_and_public_agents_are_seen_by_the_company(agent: StoredAgent) -> None:
    require_visible(agent, COLLEAGUE)


def test_private_agents_are_seen_by_their_owner_and_by_readers_for_the_company() -> None:
    assert PRIVATE.visible_to(identity())
    assert PRIVATE.visible_to(COMPANY_READER)
    assert PRIVATE.visible_to(COMPANY_WRITER)
    assert not PRIVATE.visible_to(COLLEAGUE)


@pytest.mark.parametrize("agent", [PRIVATE, SHARED, PUBLIC])
def test_another_company_never_sees_an_agent(agent: StoredAgent) -> None:
    with pytest.raises(AgentNotFound):
        require_visible(agent, STRANGER)
    with pytest.raises(AgentNotFound):
        require_writable(agent, STRANGER)


def test_changing_takes_the_owner_or_a_writer_for_the_company() -> None:
    require_writable(SHARED, identity())
    require_writable(SHARED, COMPANY_WRITER)
    for caller in (COLLEAGUE, COMPANY_READER):
        with pytest.raises(PermissionDenied):
            require_writable(SHARED, caller)


def test_who_may_not_see_an_agent_does_not_learn_that_it_is_there_by_changing_it() -> None:
    with pytest.raises(AgentNotFound):
        require_writable(PRIVATE, COLLEAGUE)


def test_another_configuration_is_another_version() -> None:
    after = changed(PRIVATE, system_prompt="Be long.")

    assert after.version_number == "1.0.1"
    assert after.config_hash != PRIVATE.config_hash
    assert after.updated_at == LATER
    assert changed(after, system_prompt="Be brief.").version_number == "1.0.2"


def test_settings_make_no_version() -> None:
    after = changed(PRIVATE, is_shared=True, entry_point="greeting", allowed_origins=["https://example.com"])

    assert (after.version_number, after.config_hash) == (PRIVATE.version_number, PRIVATE.config_hash)
    assert (after.is_shared, after.entry_point) == (True, "greeting")
    assert after.public().allowed_origins == ["https://example.com"]
    assert after.updated_at == LATER


@pytest.mark.parametrize("changes", [{}, {"system_prompt": "Be brief."}, {"is_shared": False}])
def test_a_change_that_changes_nothing_leaves_the_agent_as_it_is(changes: dict[str, object]) -> None:
    assert changed(PRIVATE, **changes) is PRIVATE


def test_what_is_given_replaces_what_stands() -> None:
    before = stored_agent(llm_config={"model": "openai:gpt-4o", "temperature": 1}, tools=["calculator"])

    after = changed(before, llm_config={"model": "openai:gpt-4o"}, tools=[], name="New", origin_url=None)

    assert after.system_config["llm_config"] == {"model": "openai:gpt-4o"}
    assert after.system_config["tools"] == []
    assert after.public().name == "New"
    assert after.agent_key == before.agent_key


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Support Assistant", "support-assistant"),
        ("  Support -- Assistant!  ", "support-assistant"),
        ("Über Straße", "uber-strasse"),
        ("Łódź & Ørsted", "lodz-orsted"),
        ("Помощник", "pomoshchnik"),
        ("東京 アシスタント", "dongjing-ashisutanto"),
        ("Anna's helper", "annas-helper"),
        ("🤖", "robot"),
        ("!!!", "agent"),
        ("\u200b", "agent"),
        ("v2.0", "v2-0"),
    ],
)
def test_slug(name: str, expected: str) -> None:
    assert slug(name) == expected
    assert is_agent_key(expected)


@pytest.mark.parametrize("name", ["x" * 200, "word " * 40, "й" * 200, "ab-" * 80])
def test_a_slug_is_short_and_fit_for_a_url(name: str) -> None:
    assert len(slug(name)) <= 60
    assert all(is_agent_key(key) for key in islice(candidates(name), 20))


def test_every_key_has_a_suffix_of_its_own_also_the_first() -> None:
    keys = list(islice(candidates("Support"), 20))
    assert len(set(keys)) == len(keys)
    assert all(re.fullmatch(r"support-[a-z0-9]{6}", key) for key in keys)
