"""Creates the tables for agents, toolsets, their versions, and secrets."""

from alembic import op

from libs.eventing.schema import create_eventing_tables

revision = "0001"
down_revision = None

# Configurations are json rather than jsonb, which wouldn't preserve the order of fields.
AGENTS = (
    """
    CREATE TABLE agents (
        id text CONSTRAINT pk_agents PRIMARY KEY,
        agent_key text NOT NULL CONSTRAINT uq_agents_agent_key UNIQUE,
        company_id text NOT NULL,
        owner_id text NOT NULL,
        is_public boolean NOT NULL,
        is_shared boolean NOT NULL,
        origin_url text,
        allowed_origins text[] NOT NULL,
        entry_point text NOT NULL,
        version_number text NOT NULL,
        created_at timestamptz NOT NULL,
        updated_at timestamptz NOT NULL,
        deleted_at timestamptz
    )
    """,
    "CREATE INDEX ix_agents_company_id ON agents (company_id, id) WHERE deleted_at IS NULL",
    "CREATE INDEX ix_agents_deleted_at ON agents (deleted_at) WHERE deleted_at IS NOT NULL",
    """
    CREATE TABLE agent_versions (
        agent_id text CONSTRAINT fk_agent_versions_agent_id_agents REFERENCES agents (id),
        version_number text,
        position bigint GENERATED ALWAYS AS IDENTITY,
        config_hash text NOT NULL,
        system_config json NOT NULL,
        created_by text NOT NULL,
        created_at timestamptz NOT NULL,
        CONSTRAINT pk_agent_versions PRIMARY KEY (agent_id, version_number)
    )
    """,
    "CREATE INDEX ix_agent_versions_position ON agent_versions (agent_id, position)",
    """
    CREATE FUNCTION refuse_change_of_version() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            RAISE EXCEPTION 'a version never changes' USING ERRCODE = 'restrict_violation';
        END $$
    """,
    """
    CREATE TRIGGER agent_versions_immutable BEFORE UPDATE ON agent_versions
    FOR EACH ROW EXECUTE FUNCTION refuse_change_of_version()
    """,
)
TOOLSETS = (
    # warnings: about tools of the target that were skipped.
    """
    CREATE TABLE toolsets (
        id text CONSTRAINT pk_toolsets PRIMARY KEY,
        company_id text NOT NULL,
        name text NOT NULL,
        type text NOT NULL,
        version integer NOT NULL,
        created_at timestamptz NOT NULL,
        updated_at timestamptz NOT NULL,
        refreshed_at timestamptz NOT NULL,
        deleted_at timestamptz,
        warnings json NOT NULL DEFAULT '[]'
    )
    """,
    "CREATE UNIQUE INDEX uq_toolsets_company_id ON toolsets (company_id, name) WHERE deleted_at IS NULL",
    "CREATE INDEX ix_toolsets_deleted_at ON toolsets (deleted_at) WHERE deleted_at IS NOT NULL",
    """
    CREATE TABLE toolset_versions (
        id text CONSTRAINT pk_toolset_versions PRIMARY KEY,
        toolset_id text NOT NULL CONSTRAINT fk_toolset_versions_toolset_id_toolsets REFERENCES toolsets (id),
        version integer NOT NULL,
        config json NOT NULL,
        tools json NOT NULL,
        tool_names text[] NOT NULL,
        created_by text NOT NULL,
        created_at timestamptz NOT NULL,
        superseded_at timestamptz,
        CONSTRAINT uq_toolset_versions_toolset_id UNIQUE (toolset_id, version)
    )
    """,
    """
    CREATE INDEX ix_toolset_versions_superseded_at ON toolset_versions (superseded_at)
    WHERE superseded_at IS NOT NULL
    """,
    """
    CREATE TRIGGER toolset_versions_immutable
    BEFORE UPDATE OF id, toolset_id, version, config, tools, tool_names, created_by, created_at ON toolset_versions
    FOR EACH ROW EXECUTE FUNCTION refuse_change_of_version()
    """,
)
SECRETS = (
    """
    CREATE TABLE secrets (
        id text CONSTRAINT pk_secrets PRIMARY KEY,
        company_id text NOT NULL,
        name text NOT NULL,
        ciphertext bytea NOT NULL,
        created_at timestamptz NOT NULL,
        updated_at timestamptz NOT NULL,
        deleted_at timestamptz
    )
    """,
    "CREATE UNIQUE INDEX uq_secrets_company_id ON secrets (company_id, name) WHERE deleted_at IS NULL",
    "CREATE INDEX ix_secrets_deleted_at ON secrets (deleted_at) WHERE deleted_at IS NOT NULL",
)


def upgrade() -> None:
    create_eventing_tables(op)
    for noun in (AGENTS, TOOLSETS, SECRETS):
        for statement in noun:
            op.execute(statement)


# For docs/operate/data.md.
TABLES = {
    "agents": {"row": "each agent", "bytes": "480", "removed": "one tombstone period after its deletion"},
    "agent_versions": {
        "row": "each version",
        "bytes": "2,460 with a configuration of 2 kB",
        "removed": "with its agent",
    },
    "toolsets": {"row": "each toolset", "bytes": "370", "removed": "one tombstone period after its deletion"},
    "toolset_versions": {
        "row": "each version",
        "bytes": "1,900 with five tools of 300 bytes",
        "removed": "with its toolset, or one tombstone period after it's replaced",
    },
    "secrets": {
        "row": "each secret",
        "bytes": "410 with a value of 40 bytes",
        "removed": "the ciphertext on deletion, the name one tombstone period later",
    },
}
