"""Agents and their versions."""

from alembic import op

from libs.eventing.schema import create_eventing_tables

revision = "0001"
down_revision = None

AGENTS = """
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
"""
# json, not jsonb: fields keep the order in which people know them.
VERSIONS = """
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
"""
REFUSE_CHANGE = """
    CREATE FUNCTION refuse_change_of_version() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            RAISE EXCEPTION 'a version of an agent never changes' USING ERRCODE = 'restrict_violation';
        END $$
"""
IMMUTABLE = """
    CREATE TRIGGER agent_versions_immutable BEFORE UPDATE ON agent_versions
    FOR EACH ROW EXECUTE FUNCTION refuse_change_of_version()
"""


def upgrade() -> None:
    create_eventing_tables(op)
    op.execute(AGENTS)
    op.execute("CREATE INDEX ix_agents_company_id ON agents (company_id, id) WHERE deleted_at IS NULL")
    op.execute(VERSIONS)
    op.execute("CREATE INDEX ix_agent_versions_position ON agent_versions (agent_id, position)")
    op.execute(REFUSE_CHANGE)
    op.execute(IMMUTABLE)
