"""Checks that an agent's tools exist here, and that what it says about them fits."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from libs.contracts.api.agents import AgentConfiguration
from services.registry.domain.findings import Findings
from services.registry.domain.hints import Loc, near
from services.registry.domain.json_schemas import object_schema_errors, schema_errors
from services.registry.domain.ports import RuntimeCatalogue

ToolNames = Mapping[str, Sequence[str]]
"""The names of the tools of a company's toolsets, by toolset."""


def check_use_of_tools(configuration: AgentConfiguration, findings: Findings) -> None:
    if configuration.agent_type == "llm_agent" and configuration.tools:
        findings.warn(
            ("tools",),
            "tools_unused",
            "An llm_agent does not call tools",
            "set agent_type to react_agent, or remove the tools",
        )
    if configuration.agent_type == "react_agent" and not (configuration.tools or configuration.client_tools):
        findings.warn(
            ("tools",),
            "tools_missing",
            "A react_agent without tools can only answer in text",
            "give it tools, or set agent_type to llm_agent",
        )
    for index, tool in enumerate(configuration.tools):
        if tool in configuration.tools[:index]:
            findings.warn(("tools", index), "tool_repeated", f"The tool {tool!r} is listed before", "name it once")


def check_builtin_tools(
    tools: Sequence[str], catalogue: RuntimeCatalogue, toolsets: ToolNames, findings: Findings
) -> None:
    """Checks the names without a dot. ``toolsets`` are for hints."""
    for index, tool in enumerate(tools):
        if "." not in tool and tool not in catalogue.tools:
            known = [*catalogue.tools, *_all_names(toolsets)]
            findings.error(
                ("tools", index),
                "tool_unknown",
                f"There is no tool {tool!r}",
                _meant(tool, toolsets) or near(tool, known) or f"known: {', '.join(catalogue.tools)}",
            )


def check_toolset_tools(tools: Sequence[str], toolsets: ToolNames, findings: Findings) -> None:
    """Checks the names with a dot: ``<toolset>.<tool>`` and ``<toolset>.*``."""
    for index, tool in enumerate(tools):
        toolset, dot, name = tool.partition(".")
        if not dot:
            continue
        loc: Loc = ("tools", index)
        if toolset not in toolsets:
            known = f"known: {', '.join(sorted(toolsets))}" if toolsets else "make it first: POST /toolsets/"
            findings.error(loc, "toolset_unknown", f"There is no toolset {toolset!r}", near(toolset, toolsets) or known)
        elif name != "*" and name not in toolsets[toolset]:
            hint = near(name, toolsets[toolset], prefix=f"{toolset}.")
            findings.error(
                loc,
                "tool_unknown",
                f"The toolset {toolset!r} has no tool {name!r}",
                hint or f"{toolset}.* stands for all of its tools",
            )


def check_tool_policies(configuration: AgentConfiguration, toolsets: ToolNames, findings: Findings) -> None:
    """A policy for one tool that the agent does not have is an error: it would not hold for what was meant."""
    tools = agent_tools(configuration.tools, toolsets)
    clients = {tool.name for tool in configuration.client_tools}
    for pattern, policy in configuration.tool_policies.items():
        loc: Loc = ("tool_policies", pattern)
        matched = any(fnmatchcase(tool, pattern) for tool in tools)
        if not matched and pattern in clients:
            findings.error(
                loc,
                "policy_of_client_tool",
                f"The caller runs {pattern!r} itself: there is nothing to approve or to repeat",
                "remove the policy",
            )
        elif not matched and "*" in pattern:
            findings.warn(loc, "policy_unused", f"The agent has no tool that {pattern!r} fits", "see to its tools")
        elif not matched:
            findings.error(
                loc,
                "policy_unmatched",
                f"The agent has no tool {pattern!r}",
                near(pattern, tools) or "see to its tools",
            )
        if not policy.model_dump(exclude_none=True):
            findings.warn(loc, "policy_empty", "This policy says nothing", "give approval, timeout_seconds or retries")


def check_client_tools(configuration: AgentConfiguration, findings: Findings) -> None:
    seen: set[str] = set()
    for index, tool in enumerate(configuration.client_tools):
        loc: Loc = ("client_tools", index)
        if tool.name in seen or tool.name in configuration.tools:
            findings.error(
                (*loc, "name"),
                "tool_repeated",
                f"The agent has a tool {tool.name!r} already",
                "give it another name",
            )
        seen.add(tool.name)
        findings.errors += object_schema_errors(tool.parameters, (*loc, "parameters"))


def check_output_schema(configuration: AgentConfiguration, findings: Findings) -> None:
    if configuration.output_schema is not None:
        findings.errors += schema_errors(configuration.output_schema, ("output_schema",))


def agent_tools(tools: Sequence[str], toolsets: ToolNames) -> list[str]:
    """The agent's tools with ``<toolset>.*`` written out."""
    return list(dict.fromkeys(name for tool in tools for name in _written_out(tool, toolsets)))


def _written_out(tool: str, toolsets: ToolNames) -> Iterator[str]:
    toolset, _, name = tool.partition(".")
    if name == "*":
        yield from (f"{toolset}.{each}" for each in toolsets.get(toolset, ()))
    else:
        yield tool


def _all_names(toolsets: ToolNames) -> Iterator[str]:
    for toolset, tools in toolsets.items():
        yield from (f"{toolset}.{tool}" for tool in tools)


def _meant(tool: str, toolsets: ToolNames) -> str | None:
    """A hint for the bare name of a toolset, or of a tool of one."""
    if tool in toolsets:
        return f"did you mean {tool}.*?"
    owners: Collection[str] = [f"{toolset}.{tool}" for toolset, tools in toolsets.items() if tool in tools]
    return f"did you mean {' or '.join(owners)}?" if owners else None
