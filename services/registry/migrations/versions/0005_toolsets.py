"""Toolsets with their versions, and secrets."""

from alembic import op

revision = "0005"
down_revision = "0004"

TOOLSETS = """
    CREATE TABLE toolsets (
        id text CONSTRAINT pk_toolsets PRIMARY KEY,
        company_id text NOT NULL,
        name text NOT NULL,
        type text NOT NULL,
        version integer NOT NULL,
        created_at timestamptz NOT NULL,
        updated_at timestamptz NOT NULL,
        refreshed_at timestamptz NOT NULL,
        deleted_at timestamptz
    )
"""
# json, not jsonb: fields keep the order in which people know them.
VERSIONS = """
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
"""
REFUSE_CHANGE = """
    CREATE FUNCTION refuse_change_of_toolset_version() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            RAISE EXCEPTION 'a version of a toolset never changes' USING ERRCODE = 'restrict_violation';
        END $$
"""
IMMUTABLE = """
    CREATE TRIGGER toolset_versions_immutable
    BEFORE UPDATE OF id, toolset_id, version, config, tools, tool_names, created_by, created_at ON toolset_versions
    FOR EACH ROW EXECUTE FUNCTION refuse_change_of_toolset_version()
"""
SECRETS = """
    CREATE TABLE secrets (
        id text CONSTRAINT pk_secrets PRIMARY KEY,
        company_id text NOT NULL,
        name text NOT NULL,
        ciphertext bytea NOT NULL,
        created_at timestamptz NOT NULL,
        updated_at timestamptz NOT NULL,
        deleted_at timestamptz
    )
"""


def upgrade() -> None:
    op.execute(TOOLSETS)
    op.execute("CREATE UNIQUE INDEX uq_toolsets_company_id ON toolsets (company_id, name) WHERE deleted_at IS NULL")
    op.execute("CREATE INDEX ix_toolsets_deleted_at ON toolsets (deleted_at) WHERE deleted_at IS NOT NULL")
    op.execute(VERSIONS)
    op.execute(
        "CREATE INDEX ix_toolset_versions_superseded_at ON toolset_versions (superseded_at)"
        " WHERE superseded_at IS NOT NULL"
    )
    op.execute(REFUSE_CHANGE)
    op.execute(IMMUTABLE)
    op.execute(SECRETS)
    op.execute("CREATE UNIQUE INDEX uq_secrets_company_id ON secrets (company_id, name) WHERE deleted_at IS NULL")
    op.execute("CREATE INDEX ix_secrets_deleted_at ON secrets (deleted_at) WHERE deleted_at IS NOT NULL")
