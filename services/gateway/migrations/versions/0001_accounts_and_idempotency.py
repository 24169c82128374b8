"""Companies, users, API keys and idempotency keys."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from libs.eventing.schema import create_eventing_tables

revision = "0001"
down_revision = None


def _moment(name: str, *, nullable: bool = False) -> sa.Column[object]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=nullable)


def upgrade() -> None:
    create_eventing_tables(op)
    op.create_table(
        "companies",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("rate_limit", sa.Integer()),
        _moment("created_at"),
        sa.PrimaryKeyConstraint("id", name="pk_companies"),
        sa.UniqueConstraint("name", name="uq_companies_name"),
        sa.CheckConstraint("rate_limit > 0", name="ck_companies_rate_limit"),
    )
    op.create_table(
        "users",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        _moment("created_at"),
        sa.PrimaryKeyConstraint("id", name="pk_users"),
        sa.ForeignKeyConstraint(["company_id"], ["companies.id"], name="fk_users_company_id_companies"),
        sa.UniqueConstraint("company_id", "name", name="uq_users_company_id_name"),
        sa.UniqueConstraint("company_id", "id", name="uq_users_company_id_id"),
    )
    _create_api_keys()
    op.create_table(
        "idempotency_keys",
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("principal_id", sa.Text(), nullable=False),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("body_hash", sa.LargeBinary(), nullable=False),
        sa.Column("command_id", sa.Uuid(), nullable=False),
        sa.Column("correlation_id", sa.Text(), nullable=False),
        _moment("created_at"),
        sa.PrimaryKeyConstraint("company_id", "principal_id", "method", "path", "key", name="pk_idempotency_keys"),
    )
    op.create_index("ix_idempotency_keys_created_at", "idempotency_keys", ["created_at"])


def _create_api_keys() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("company_id", sa.Uuid(), nullable=False),
        sa.Column("user_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("prefix", sa.Text(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("scopes", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("rate_limit", sa.Integer()),
        _moment("created_at"),
        _moment("expires_at", nullable=True),
        _moment("revoked_at", nullable=True),
        sa.Column("successor_id", sa.Uuid()),
        sa.PrimaryKeyConstraint("id", name="pk_api_keys"),
        sa.ForeignKeyConstraint(
            ["company_id", "user_id"], ["users.company_id", "users.id"], name="fk_api_keys_company_id_user_id_users"
        ),
        sa.ForeignKeyConstraint(["successor_id"], ["api_keys.id"], name="fk_api_keys_successor_id_api_keys"),
        sa.UniqueConstraint("digest", name="uq_api_keys_digest"),
        sa.CheckConstraint("rate_limit > 0", name="ck_api_keys_rate_limit"),
    )
    op.create_index("ix_api_keys_company_id_created_at", "api_keys", ["company_id", "created_at"])
