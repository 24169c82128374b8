"""How agents and versions lie in their tables."""

from typing import Any, Final

from services.registry.domain.agent import StoredAgent, StoredVersion

AGENT_COLUMNS: Final = """
    a.id, a.agent_key, a.company_id, a.owner_id, a.is_public, a.is_shared, a.origin_url, a.allowed_origins,
    a.entry_point, a.version_number, a.created_at, a.updated_at, v.config_hash, v.system_config
"""
LIVE_AGENTS: Final = f"""
    SELECT {AGENT_COLUMNS}
    FROM agents a
    JOIN agent_versions v ON v.agent_id = a.id AND v.version_number = a.version_number
    WHERE a.deleted_at IS NULL
"""
VERSION_COLUMNS: Final = "version_number, config_hash, system_config, created_by, created_at"


def agent_of(row: dict[str, Any]) -> StoredAgent:
    return StoredAgent(**{**row, "allowed_origins": tuple(row["allowed_origins"])})


def version_of(row: dict[str, Any]) -> StoredVersion:
    return StoredVersion(**row)
