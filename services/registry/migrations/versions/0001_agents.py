"""Agents and their versions."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSON, TIMESTAMP

from libs.eventing.schema import create_eventing_tables

revision = "0001"
down_revision = None


def upgrade() -> None:
    create_eventing_tables(op)
    op.create_table(
        "agents",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("agent_key", sa.Text, nullable=False, unique=True),
        sa.Column("company_id", sa.Text, nullable=False),
        sa.Column("owner_id", sa.Text, nullable=False),
        sa.Column("is_public", sa.Boolean, nullable=False),
        sa.Column("is_shared", sa.Boolean, nullable=False),
        sa.Column("origin_url", sa.Text),
        sa.Column("allowed_origins", sa.ARRAY(sa.Text), nullable=False),
        sa.Column("entry_point", sa.Text, nullable=False),
        sa.Column("version_number", sa.Text, nullable=False),
        sa.Column("created_at", TIMESTAMP(timezone=True), nullable=False),
        sa.Column("updated_at", TIMESTAMP(timezone=True), nullable=False),
        sa.Column("deleted_at", TIMESTAMP(timezone=True)),
    )
    op.create_index(
        "ix_agents_company_id", "agents", ["company_id", "id"], postgresql_where=sa.text("deleted_at IS NULL")
    )
    op.create_table(
        "agent_versions",
        sa.Column("agent_id", sa.Text, sa.ForeignKey("agents.id"), primary_key=True),
        sa.Column("version_number", sa.Text, primary_key=True),
        sa.Column("position", sa.BigInteger, sa.Identity(always=True), nullable=False),
        sa.Column("config_hash", sa.Text, nullable=False),
        # json, not jsonb: fields keep the order in which people know them.
        sa.Column("system_config", JSON, nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("created_at", TIMESTAMP(timezone=True), nullable=False),
    )
    op.create_index("ix_agent_versions_position", "agent_versions", ["agent_id", "position"])
    op.execute(
        """
        CREATE FUNCTION refuse_change_of_version() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            RAISE EXCEPTION 'a version of an agent never changes' USING ERRCODE = 'restrict_violation';
        END $$
        """
    )
    op.execute(
        """
        CREATE TRIGGER agent_versions_immutable BEFORE UPDATE ON agent_versions
        FOR EACH ROW EXECUTE FUNCTION refuse_change_of_version()
        """
    )
