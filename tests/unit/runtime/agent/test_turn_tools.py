"""Tools that a turn offers, and the policies on their calls."""

from collections.abc import Sequence
from dataclasses import replace

from libs.contracts.identity import Identity
from libs.contracts.resources.toolsets import ConnectedTool, DiscoveredTools
from services.runtime.domain.agents import AgentSpec, AgentTask, ToolPolicy
from services.runtime.domain.conversation import JsonObject, ToolResult
from services.runtime.domain.steps import ModelOutput, Step
from services.runtime.domain.tools import (
    Approval,
    RedefinedTool,
    Toolbox,
    ToolContext,
    ToolDefinition,
    ToolOutput,
    ToolsetVersion,
)
from services.runtime.domain.toolsets import Toolset
from services.runtime.use_cases.agent.agent_loop import AgentRunner
from services.runtime.use_cases.agent.turn_tools import AgentTools, under_policies
from tests.support.agent_fakes import (
    CALLER,
    FakeTool,
    MemoryJournal,
    ScriptedModel,
    agent_task,
    answering,
    calling,
    with_tools,
)


def toolset(name: str, *tools: str, version: int = 1) -> Toolset:
    return Toolset("company", name, version, "http", {}, tuple(ConnectedTool(name=tool) for tool in tools), {})


class FakeCatalogue:
    """Toolsets of one company, in all their versions."""

    def __init__(self, *toolsets: Toolset) -> None:
        self.toolsets_ = list(toolsets)
        self.asked: list[tuple[list[str], Identity, list[ToolsetVersion]]] = []

    async def toolsets(
        self, names: Sequence[str], caller: Identity, versions: Sequence[ToolsetVersion] = (), /
    ) -> Sequence[Toolset]:
        self.asked.append((list(names), caller, list(versions)))
        wanted = {version.name: version.version for version in versions}
        newest = {each.name: each for each in self.toolsets_ if wanted.get(each.name, each.version) == each.version}
        return [newest[name] for name in names if name in newest]


class FakeConnector:
    async def discover(self, toolset: Toolset, /) -> DiscoveredTools:
        return DiscoveredTools(tools=list(toolset.tools))

    async def call(
        self, toolset: Toolset, tool: ConnectedTool, _arguments: JsonObject, _context: ToolContext, /
    ) -> ToolOutput:
        return ToolOutput(f"{toolset.name}.{tool.name} of version {toolset.version}")


def asking(*tools: str) -> AgentTask:
    return agent_task(agent=AgentSpec("react_agent", model="scripted:model", tools=tools))


def source(*toolsets: Toolset) -> tuple[AgentTools, FakeCatalogue]:
    """The built-in tool `echo` and these toolsets."""
    catalogue = FakeCatalogue(*toolsets)
    return AgentTools(Toolbox(FakeTool()), catalogue, {"http": FakeConnector()}), catalogue


async def test_tools_come_in_the_order_of_the_agent() -> None:
    agents, catalogue = source(toolset("crm", "find"), toolset("tickets", "read", "close", version=3))

    tools = await agents.for_turn(asking("tickets.close", "echo", "crm.*", "tickets.*"))
    again = await agents.for_turn(asking("crm.*"))

    assert list(tools) == ["tickets.close", "echo", "crm.find", "tickets.read"]
    assert tools.toolsets == (ToolsetVersion("tickets", 3), ToolsetVersion("crm", 1))
    assert catalogue.asked == [(["tickets", "crm"], CALLER, []), (["crm"], CALLER, [])]
    assert tools["crm.find"].definition.toolset == "crm"
    assert tools["crm.find"] is again["crm.find"], "the tools of a version are made once"


async def test_tools_and_toolsets_that_are_missing_are_warned_of() -> None:
    agents, catalogue = source(toolset("tickets", "read"))

    await agents.for_turn(asking("echo"))
    assert catalogue.asked == [], "built-in tools are in no catalogue"
    tools = await agents.for_turn(asking("tickets.gone", "crm.*", "nothing"))

    assert list(tools) == []
    missing = ("tickets.gone", "crm.*", "nothing")
    assert tools.warnings == tuple(f"the tool '{name}' isn't available" for name in missing)


async def test_the_first_step_has_the_versions_of_the_toolsets_or_the_reply_of_a_turn_of_one_step() -> None:
    agents, _ = source(toolset("crm", "find", version=7))
    call, journal = calling(("crm.find", {})), MemoryJournal()

    reply = await AgentRunner(ScriptedModel(call, call, answering("Found.")), agents).run(asking("crm.find"), journal)
    recorded = [step.content.toolsets for step in journal.steps if isinstance(step.content, ModelOutput)]
    assert (recorded, reply.toolsets) == ([(ToolsetVersion("crm", 7),), ()], ())

    once = await AgentRunner(ScriptedModel(answering("Hello.")), agents).run(asking("crm.find"), MemoryJournal())
    assert once.toolsets == (ToolsetVersion("crm", 7),)


async def test_a_resumed_turn_goes_on_with_the_versions_that_it_began_with() -> None:
    agents, catalogue = source(toolset("crm", "find", version=7), toolset("crm", "search", version=8), toolset("new"))
    began = Step(1, ModelOutput(calling(("crm.find", {})), (ToolsetVersion("crm", 7),)))
    journal = MemoryJournal([began, Step(1, ToolResult("c1", "crm.find", "old"))])
    model = ScriptedModel(answering("Found."))

    await AgentRunner(model, agents).run(asking("crm.*", "new.*"), journal)

    assert [tool.name for tool in model.requests[0].tools] == ["crm.find"]
    assert catalogue.asked == [(["crm"], CALLER, [ToolsetVersion("crm", 7)])]


def _defined(
    policies: dict[str, ToolPolicy], name: str = "tickets.refund", approval: Approval = "never"
) -> ToolDefinition:
    tool = FakeTool(name)
    tool.definition = replace(tool.definition, approval=approval, timeout_seconds=30.0, retries=2)
    return under_policies([tool], policies)[0].definition


def test_the_stricter_approval_holds() -> None:
    cases: list[tuple[Approval, Approval | None, Approval]] = [
        ("never", None, "never"),
        ("never", "always", "always"),
        ("always", "never", "always"),
        ("always", "always", "always"),
    ]
    for of_toolset, of_agent, holds in cases:
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
