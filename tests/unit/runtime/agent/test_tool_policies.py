"""An agent's policies over the definitions of its tools."""

from dataclasses import replace

import pytest

from services.runtime.domain.agents import AgentSpec, ToolPolicy
from services.runtime.domain.tools import Approval, RedefinedTool, ToolDefinition
from services.runtime.use_cases.agent.turn_tools import under_policies
from tests.support.agent_fakes import FakeTool, agent_task, with_tools


def _defined(
    policies: dict[str, ToolPolicy], name: str = "tickets.refund", approval: Approval = "never"
) -> ToolDefinition:
    tool = FakeTool(name)
    tool.definition = replace(tool.definition, approval=approval, timeout_seconds=30.0, retries=2)
    return under_policies([tool], policies)[0].definition


@pytest.mark.parametrize(
    ("of_toolset", "of_agent", "holds"),
    [
        ("never", None, "never"),
        ("never", "always", "always"),
        ("always", "never", "always"),
        ("always", "always", "always"),
    ],
)
def test_the_stricter_approval_holds(of_toolset: Approval, of_agent: Approval | None, holds: Approval) -> None:
    assert _defined({"tickets.refund": ToolPolicy(approval=of_agent)}, approval=of_toolset).approval == holds


def test_time_limit_and_retries_of_the_agent_hold() -> None:
    defined = _defined({"tickets.*": ToolPolicy(timeout_seconds=5.0, retries=0)})

    assert (defined.timeout_seconds, defined.retries, defined.approval) == (5.0, 0, "never")


def test_the_most_specific_policy_that_says_something_counts() -> None:
    policies = {
        "*": ToolPolicy(approval="always", timeout_seconds=1.0, retries=1),
        "tickets.refund": ToolPolicy(approval="never"),
        "tickets.*": ToolPolicy(timeout_seconds=2.0),
    }

    defined = _defined(policies)
    assert (defined.approval, defined.timeout_seconds, defined.retries) == ("never", 2.0, 1)
    assert _defined(policies, "calculator").approval == "always"


def test_a_tool_that_no_policy_changes_is_the_tool_itself() -> None:
    tool = FakeTool()

    assert under_policies([tool], {"other": ToolPolicy(approval="always")}) == [tool]
    assert under_policies([tool], {}) == [tool]


async def test_a_turn_has_its_tools_under_their_policies_and_those_of_the_client() -> None:
    config = {
        "agent_type": "react_agent",
        "tools": ["echo", "echo", "missing"],
        "tool_policies": {"echo": {"approval": "always"}},
        "client_tools": [{"name": "locate", "description": "Where the user is.", "parameters": {"type": "object"}}],
    }
    task = agent_task(agent=AgentSpec.from_config(config))

    tools = await with_tools(FakeTool("echo"), FakeTool("other")).for_turn(task)

    assert list(tools) == ["locate", "echo"]
    assert isinstance(tools["echo"], RedefinedTool)
    assert [(each.approval, each.run_by_client) for each in tools.definitions] == [("never", True), ("always", False)]
    assert tools.warnings == ("the tool 'missing' isn't available",)
