"""Normalizes and hashes agent configurations."""

import hashlib
from typing import Any, Final

import rfc8785

from libs.contracts.resources.agents import AgentConfiguration, KnowledgeBaseLink

CONFIGURATION_FIELDS: Final = tuple(AgentConfiguration.model_fields)
FIRST_VERSION: Final = "1.0.0"


def knowledge_base_id(link: str | KnowledgeBaseLink) -> str:
    return link if isinstance(link, str) else link.id


def normalised(configuration: AgentConfiguration) -> dict[str, Any]:
    """Returns the normal form of a configuration, so that equivalent configurations have the same hash."""
    return {
        "name": configuration.name,
        "agent_type": configuration.agent_type,
        "system_prompt": configuration.system_prompt,
        "llm_config": configuration.llm_config.model_dump(exclude_none=True),
        "tools": list(dict.fromkeys(configuration.tools)),
        "knowledge_bases": [_normalised_link(link) for link in configuration.knowledge_bases],
        **_optional_parts(configuration),
    }


def _optional_parts(configuration: AgentConfiguration) -> dict[str, Any]:
    policies = {
        pattern: policy.model_dump(exclude_none=True) for pattern, policy in configuration.tool_policies.items()
    }
    parts = {
        "tool_policies": {pattern: policy for pattern, policy in policies.items() if policy},
        "client_tools": [tool.model_dump() for tool in configuration.client_tools],
    }
    schema = configuration.output_schema
    return {name: part for name, part in parts.items() if part} | ({} if schema is None else {"output_schema": schema})


def config_hash(system_config: dict[str, Any]) -> str:
    """Returns the SHA-256 hash of the configuration's canonical JSON (RFC 8785), in hexadecimal."""
    return hashlib.sha256(rfc8785.dumps(system_config)).hexdigest()


def next_version(version_number: str) -> str:
    """Increments the patch number: ``1.0.0`` → ``1.0.1``."""
    *series, last = version_number.split(".")
    return ".".join([*series, str(int(last) + 1)])


def _normalised_link(link: str | KnowledgeBaseLink) -> str | dict[str, Any]:
    if isinstance(link, str):
        return link
    if link == KnowledgeBaseLink(id=link.id):
        return link.id
    return link.model_dump(exclude_none=True)
