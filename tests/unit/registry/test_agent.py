from datetime import UTC, datetime

import pytest

from libs.contracts.errors import PermissionDenied
from libs.contracts.identity import Scope
from libs.contracts.resources.agents import UpdateAgentBody
from services.registry.domain.agent import AgentNotFound, StoredAgent, require_visible, require_writable
from tests.support.registry import identity, stored_agent

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
