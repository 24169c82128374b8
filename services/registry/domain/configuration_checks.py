"""Checks that the objects a configuration refers to exist, and that its parts fit together."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from libs.contracts.findings import did_you_mean_any
from libs.contracts.resources.agents import AgentConfiguration
from services.registry.domain.configuration import knowledge_base_id
from services.registry.domain.findings import Finding, error, warning
from services.registry.domain.hints import Loc, near
from services.registry.domain.json_schemas import object_schema_errors, schema_errors
from services.registry.domain.ports import KnowledgeBaseCheck, RuntimeCatalogue

ToolNames = Mapping[str, Sequence[str]]
"""The names of a company's tools, by toolset name."""
BUILTIN_TOOLS: Final = "builtin_tools"
"""The part of a configuration that contains the built-in ``tools``."""
_MODEL: Final[Loc] = ("llm_config", "model")


@dataclass(frozen=True, slots=True)
class World:
    """The models, tools and knowledge bases that are available to a company's agents.

    ``catalogue`` is None if the runtime didn't respond. ``knowledge_bases`` is None without an ingestion service.
    """

    catalogue: RuntimeCatalogue | None
    toolsets: ToolNames
    knowledge_bases: KnowledgeBaseCheck | None


def check(configuration: AgentConfiguration, world: World, parts: Collection[str] | None = None) -> Iterator[Finding]:
    """Yields findings about these parts of a configuration, or about all parts if ``parts`` is None."""
    for each, concerns in _CHECKS.items():
        if concerned(parts, concerns):
            yield from each(configuration, world)


def concerned(parts: Collection[str] | None, by: Collection[str]) -> bool:
    return parts is None or not set(parts).isdisjoint(by)


def _runtime(_: AgentConfiguration, world: World) -> Iterator[Finding]:
    if world.catalogue is None:
        yield warning(
            (),
            "not_checked",
            "The model and tools couldn't be checked, because the runtime didn't respond",
            "validate again later",
        )


def _model(configuration: AgentConfiguration, world: World) -> Iterator[Finding]:
    model = configuration.llm_config.model
    if world.catalogue is None:
        return
    providers = world.catalogue.providers
    provider_name, _, name = model.partition(":")
    provider = providers.get(provider_name)
    if not provider_name or not name:
        listed = [known for each in providers.values() for known in each.models]
        exact = [known for known in listed if known.partition(":")[2] == model]
        hint = did_you_mean_any(exact) if exact else near(model, listed)
        hint = hint or "for example builtin:extractive or openai:gpt-4o-mini"
        yield error(_MODEL, "model_form", "A model has the form provider:name", hint)
    elif provider is None:
        hint = near(provider_name, providers) or f"use one of: {', '.join(providers)}"
        yield error(_MODEL, "provider_unknown", f"Unknown model provider {provider_name!r}", hint)
    elif not provider.configured:
        usable = " or ".join(other.name for other in providers.values() if other.configured)
        yield error(
            _MODEL,
            "provider_not_configured",
            f"The model provider {provider_name!r} isn't configured in this installation",
            f"use {usable}, or set the provider's API key and restart; see docs/reference/configuration.md",
        )
    elif model not in provider.models and provider.any_name:
        message = f"{model!r} isn't a known model; the provider may still support it"
        yield warning(
            _MODEL, "model_unlisted", message, near(model, provider.models) or "check the name with the provider"
        )
    elif model not in provider.models:
        hint = near(model, provider.models) or f"use one of: {', '.join(provider.models)}"
        yield error(_MODEL, "model_unknown", f"The provider {provider.name!r} doesn't have a model {model!r}", hint)


def _builtin_tools(configuration: AgentConfiguration, world: World) -> Iterator[Finding]:
    """Checks built-in tools. Their names don't contain a dot."""
    if world.catalogue is None:
        return
    known, toolsets = world.catalogue.tools, world.toolsets
    for index, tool in enumerate(configuration.tools):
        if "." not in tool and tool not in known:
            everything = [*known, *(f"{toolset}.{each}" for toolset, tools in toolsets.items() for each in tools)]
            hint = _meant(tool, toolsets) or near(tool, everything) or f"use one of: {', '.join(known)}"
            yield error(("tools", index), "tool_unknown", f"Unknown tool {tool!r}", hint)


def _use_of_tools(configuration: AgentConfiguration, _: World) -> Iterator[Finding]:
    if configuration.agent_type == "llm_agent" and configuration.tools:
        hint = "set agent_type to react_agent, or remove the tools"
        yield warning(("tools",), "tools_unused", "An llm_agent doesn't call tools", hint)
    if configuration.agent_type == "react_agent" and not (configuration.tools or configuration.client_tools):
        hint = "add tools, or set agent_type to llm_agent"
        yield warning(("tools",), "tools_missing", "A react_agent without tools can only answer in text", hint)
    for index, tool in enumerate(configuration.tools):
        if tool in configuration.tools[:index]:
            yield warning(("tools", index), "tool_repeated", f"The tool {tool!r} is already listed", "list it once")


def _toolset_tools(configuration: AgentConfiguration, world: World) -> Iterator[Finding]:
    """Checks tools of toolsets: ``<toolset>.<tool>`` or ``<toolset>.*``."""
    toolsets = world.toolsets
    for index, tool in enumerate(configuration.tools):
        toolset, dot, name = tool.partition(".")
        if dot and toolset not in toolsets:
            known = f"use one of: {', '.join(sorted(toolsets))}" if toolsets else "create it first: POST /toolsets/"
            hint = near(toolset, toolsets) or known
            yield error(("tools", index), "toolset_unknown", f"Unknown toolset {toolset!r}", hint)
        elif dot and name != "*" and name not in toolsets[toolset]:
            hint = near(name, toolsets[toolset], prefix=f"{toolset}.") or f"use {toolset}.* for all of its tools"
            yield error(("tools", index), "tool_unknown", f"The toolset {toolset!r} doesn't have a tool {name!r}", hint)


def _tool_policies(configuration: AgentConfiguration, world: World) -> Iterator[Finding]:
    """Checks that each policy applies to a tool.

    A policy with a misspelled name is an error, because the intended tool would run without the policy.
    """
    tools = _written_out(configuration.tools, world.toolsets)
    clients = {tool.name for tool in configuration.client_tools}
    for pattern, policy in configuration.tool_policies.items():
        loc: Loc = ("tool_policies", pattern)
        if not any(fnmatchcase(tool, pattern) for tool in tools):
            if pattern in clients:
                message = f"The tool {pattern!r} runs in the client, so it can't have a policy"
                yield error(loc, "policy_of_client_tool", message, "remove the policy")
            elif "*" in pattern:
                yield warning(
                    loc, "policy_unused", f"None of the agent's tools match {pattern!r}", "check the agent's tools"
                )
            else:
                hint = near(pattern, tools) or "check the agent's tools"
                yield error(loc, "policy_unmatched", f"The agent doesn't have a tool {pattern!r}", hint)
        if not policy.model_dump(exclude_none=True):
            hint = "set approval, timeout_seconds or retries"
            yield warning(loc, "policy_empty", "This policy is empty", hint)


def _client_tools(configuration: AgentConfiguration, _: World) -> Iterator[Finding]:
    seen = set(configuration.tools)
    for index, tool in enumerate(configuration.client_tools):
        loc: Loc = ("client_tools", index)
        if tool.name in seen:
            message = f"The agent already has a tool {tool.name!r}"
            yield error((*loc, "name"), "tool_repeated", message, "rename it")
        seen.add(tool.name)
        yield from (
            Finding(each, is_error=True) for each in object_schema_errors(tool.parameters, (*loc, "parameters"))
        )


def _output_schema(configuration: AgentConfiguration, _: World) -> Iterator[Finding]:
    if configuration.output_schema is not None:
        for each in schema_errors(configuration.output_schema, ("output_schema",)):
            yield Finding(each, is_error=True)


def _knowledge_bases(configuration: AgentConfiguration, world: World) -> Iterator[Finding]:
    seen: set[str] = set()
    for index, link in enumerate(configuration.knowledge_bases):
        identifier = knowledge_base_id(link)
        loc: Loc = ("knowledge_bases", index)
        if world.knowledge_bases is None:
            message = "Knowledge bases aren't available in this installation"
            yield error(loc, "knowledge_bases_unavailable", message, "remove knowledge_bases")
        elif identifier in world.knowledge_bases.missing:
            hint = "list your company's knowledge bases to get their IDs"
            yield error(loc, "knowledge_base_unknown", f"Unknown knowledge base {identifier!r}", hint)
        elif identifier in world.knowledge_bases.unchecked:
            message = f"The knowledge base {identifier!r} couldn't be checked"
            yield warning(loc, "not_checked", message, "validate again later")
        if identifier in seen:
            yield error(loc, "knowledge_base_repeated", "This knowledge base is already attached", "list it once")
        seen.add(identifier)


_CHECKS: Final[Mapping[Callable[[AgentConfiguration, World], Iterator[Finding]], frozenset[str]]] = {
    _runtime: frozenset({"llm_config", "tools", BUILTIN_TOOLS}),
    _model: frozenset({"llm_config"}),
    _builtin_tools: frozenset({"tools", BUILTIN_TOOLS}),
    _use_of_tools: frozenset({"tools", "agent_type", "client_tools"}),
    _toolset_tools: frozenset({"tools"}),
    _tool_policies: frozenset({"tools", "tool_policies", "client_tools"}),
    _client_tools: frozenset({"tools", "client_tools"}),
    _output_schema: frozenset({"output_schema"}),
    _knowledge_bases: frozenset({"knowledge_bases"}),
}
"""The parts of a configuration that trigger each check."""
RUNTIME_PARTS: Final = _CHECKS[_runtime]
TOOL_PARTS: Final = _CHECKS[_use_of_tools] | _CHECKS[_tool_policies]


def _written_out(tools: Sequence[str], toolsets: ToolNames) -> list[str]:
    """Returns the tools' names without duplicates, with ``<toolset>.*`` expanded."""
    found: list[str] = []
    for tool in tools:
        toolset, _, name = tool.partition(".")
        found += [f"{toolset}.{each}" for each in toolsets.get(toolset, ())] if name == "*" else [tool]
    return list(dict.fromkeys(found))


def _meant(tool: str, toolsets: ToolNames) -> str | None:
    """Returns a suggestion if the name is a toolset's name, or a tool's name without its toolset."""
    if tool in toolsets:
        return did_you_mean_any([f"{tool}.*"])
    owners = [f"{toolset}.{tool}" for toolset, tools in toolsets.items() if tool in tools]
    return did_you_mean_any(owners) if owners else None
