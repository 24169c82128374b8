"""Checks that the model, tools and knowledge bases of a well-formed configuration exist here."""

from collections.abc import Collection
from typing import Final

from libs.contracts.api.agents import AgentConfiguration
from services.registry.domain.configuration import knowledge_base_id
from services.registry.domain.findings import Findings
from services.registry.domain.hints import Loc, near
from services.registry.domain.ports import KnowledgeBaseCheck, Provider, RuntimeCatalogue
from services.registry.domain.tool_checks import (
    ToolNames,
    check_builtin_tools,
    check_client_tools,
    check_output_schema,
    check_tool_policies,
    check_toolset_tools,
    check_use_of_tools,
)

MODEL_PARTS: Final = frozenset({"llm_config"})
BUILTIN_PARTS: Final = frozenset({"builtin_tools"})
TOOL_PARTS: Final = frozenset({"tools", "agent_type", "tool_policies", "client_tools", "output_schema"})
KNOWLEDGE_PARTS: Final = frozenset({"knowledge_bases"})
ALL_PARTS: Final = MODEL_PARTS | TOOL_PARTS | KNOWLEDGE_PARTS
_MODEL_LOC: Final[Loc] = ("llm_config", "model")


def check_runtime_parts(
    configuration: AgentConfiguration,
    catalogue: RuntimeCatalogue | None,
    toolsets: ToolNames,
    parts: Collection[str],
    findings: Findings,
) -> None:
    """Checks model and built-in tools against the runtime's catalogue; warns when it did not answer."""
    asks_model, asks_tools = bool(MODEL_PARTS & set(parts)), bool({"tools", *BUILTIN_PARTS} & set(parts))
    if catalogue is None:
        if asks_model or (asks_tools and configuration.tools):
            findings.warn(
                (),
                "not_checked",
                "The runtime did not answer, so model and tools could not be checked",
                "validate again when the service has recovered",
            )
        return
    if asks_model:
        _check_model(configuration.llm_config.model, catalogue, findings)
    if asks_tools:
        check_builtin_tools(configuration.tools, catalogue, toolsets, findings)


def check_tools(
    configuration: AgentConfiguration, toolsets: ToolNames, parts: Collection[str], findings: Findings
) -> None:
    """Checks what needs no other service: tools of toolsets, policies, client tools and the output's schema."""
    asked = TOOL_PARTS & set(parts)
    if asked & {"tools", "agent_type", "client_tools"}:
        check_use_of_tools(configuration, findings)
    if "tools" in asked:
        check_toolset_tools(configuration.tools, toolsets, findings)
    if asked & {"tools", "tool_policies", "client_tools"}:
        check_tool_policies(configuration, toolsets, findings)
    if asked & {"tools", "client_tools"}:
        check_client_tools(configuration, findings)
    if "output_schema" in asked:
        check_output_schema(configuration, findings)


def check_knowledge_bases(
    configuration: AgentConfiguration, check: KnowledgeBaseCheck, available: bool, findings: Findings
) -> None:
    """Checks that every knowledge base is one of the company's, named once."""
    seen: set[str] = set()
    for index, link in enumerate(configuration.knowledge_bases):
        identifier = knowledge_base_id(link)
        loc: Loc = ("knowledge_bases", index)
        if not available:
            findings.error(
                loc,
                "knowledge_bases_unavailable",
                "Knowledge bases are not available in this installation",
                "remove knowledge_bases",
            )
        elif identifier in check.missing:
            findings.error(
                loc,
                "knowledge_base_unknown",
                f"There is no knowledge base {identifier!r}",
                "list the knowledge bases of your company for their ids",
            )
        elif identifier in check.unchecked:
            findings.warn(
                loc,
                "not_checked",
                f"The knowledge base {identifier!r} could not be checked",
                "validate again later",
            )
        if identifier in seen:
            findings.error(loc, "knowledge_base_repeated", "This knowledge base is already attached", "name it once")
        seen.add(identifier)


def _check_model(model: str, catalogue: RuntimeCatalogue, findings: Findings) -> None:
    provider_name, colon, name = model.partition(":")
    if not colon or not provider_name or not name:
        listed = [known for provider in catalogue.providers.values() for known in provider.models]
        exact = [known for known in listed if known.partition(":")[2] == model]
        hint = f"did you mean {' or '.join(exact)}?" if exact else near(model, listed)
        findings.error(
            _MODEL_LOC,
            "model_form",
            "A model is named as provider:name",
            hint or "for example builtin:extractive or openai:gpt-4o-mini",
        )
        return
    provider = catalogue.providers.get(provider_name)
    if provider is None:
        findings.error(
            _MODEL_LOC,
            "provider_unknown",
            f"There is no model provider {provider_name!r}",
            near(provider_name, catalogue.providers) or f"known: {', '.join(catalogue.providers)}",
        )
    elif not provider.configured:
        usable = [other.name for other in catalogue.providers.values() if other.configured]
        findings.error(
            _MODEL_LOC,
            "provider_not_configured",
            f"The model provider {provider_name!r} is not configured in this installation",
            f"configured: {', '.join(usable)}" if usable else "ask the operator to configure it",
        )
    elif model not in provider.models:
        _report_unlisted(model, provider, findings)


def _report_unlisted(model: str, provider: Provider, findings: Findings) -> None:
    hint = near(model, provider.models)
    if provider.any_name:
        findings.warn(
            _MODEL_LOC,
            "model_unlisted",
            f"{model!r} is not a model known by name; the provider may have it all the same",
            hint or "check the name with the provider",
        )
    else:
        findings.error(
            _MODEL_LOC,
            "model_unknown",
            f"The provider {provider.name!r} has no model {model!r}",
            hint or f"known: {', '.join(provider.models)}",
        )
