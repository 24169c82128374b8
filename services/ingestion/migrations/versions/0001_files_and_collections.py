"""Files, their bytes and texts, and collections of them."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import TIMESTAMP

from libs.eventing.schema import create_eventing_tables

revision = "0001"
down_revision = None

TIME = TIMESTAMP(timezone=True)
NOW = sa.text("now()")


def upgrade() -> None:
    create_eventing_tables(op)
    _create_blobs()
    _create_texts()
    _create_files()
    _create_collections()


def _create_blobs() -> None:
    op.create_table(
        "blobs",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("company_id", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("sha256", sa.Text),
        sa.Column("size", sa.BigInteger),
        sa.Column("created_at", TIME, nullable=False, server_default=NOW),
        # Since when it is abandoned, or stored without a file that refers to it.
        sa.Column("unused_since", TIME),
        sa.CheckConstraint("state IN ('uploading', 'stored', 'abandoned')", "state"),
        sa.CheckConstraint("state <> 'stored' OR (sha256 IS NOT NULL AND size IS NOT NULL)", "stored"),
    )
    op.create_index(
        "uq_blobs_company_id_sha256",
        "blobs",
        ["company_id", "sha256"],
        unique=True,
        postgresql_where=sa.text("state = 'stored'"),
    )
    op.create_index("ix_blobs_uploading", "blobs", ["created_at"], postgresql_where=sa.text("state = 'uploading'"))
    op.create_index(
        "ix_blobs_unused_since", "blobs", ["unused_since"], postgresql_where=sa.text("unused_since IS NOT NULL")
    )


def _create_texts() -> None:
    # The same bytes give another text under another extension, so the kind of document is part of the key.
    op.create_table(
        "texts",
        sa.Column("blob_id", sa.Text, sa.ForeignKey("blobs.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("content_type", sa.Text, primary_key=True),
        sa.Column("state", sa.Text, nullable=False, server_default="pending"),
        sa.Column("lease_until", TIME),
        sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
        sa.Column("characters", sa.BigInteger),
        sa.Column("error_code", sa.Text),
        sa.Column("error_message", sa.Text),
        sa.Column("retryable", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("changed_at", TIME, nullable=False, server_default=NOW),
        sa.CheckConstraint("state IN ('pending', 'running', 'parsed', 'failed')", "state"),
    )
    op.create_index("ix_texts_changed_at", "texts", ["changed_at"])
    op.create_index(
        "ix_texts_unfinished", "texts", ["blob_id"], postgresql_where=sa.text("state IN ('pending', 'running')")
    )


def _create_files() -> None:
    op.create_table(
        "files",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("company_id", sa.Text, nullable=False),
        # Deleted files stay as tombstones, without their bytes.
        sa.Column("blob_id", sa.Text, sa.ForeignKey("blobs.id")),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("content_type", sa.Text, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("sha256", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False, server_default="active"),
        sa.Column("tags", sa.ARRAY(sa.Text), nullable=False, server_default="{}"),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("created_at", TIME, nullable=False, server_default=NOW),
        sa.Column("updated_at", TIME, nullable=False, server_default=NOW),
        sa.Column("deleted_at", TIME),
        sa.CheckConstraint("status IN ('active', 'inactive')", "status"),
        sa.CheckConstraint("(blob_id IS NULL) = (deleted_at IS NOT NULL)", "deleted"),
    )
    op.create_index(
        "ix_files_company_id",
        "files",
        ["company_id", "created_at", "id"],
        postgresql_where=sa.text("deleted_at IS NULL"),
    )
    op.create_index("ix_files_blob_id", "files", ["blob_id"], postgresql_where=sa.text("blob_id IS NOT NULL"))
    op.create_table(
        "uploads",
        sa.Column("company_id", sa.Text, primary_key=True),
        sa.Column("user_id", sa.Text, primary_key=True),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("content_hash", sa.Text, nullable=False),
        sa.Column("file_ids", sa.ARRAY(sa.Text), nullable=False),
        sa.Column("created_at", TIME, nullable=False, server_default=NOW),
    )


def _create_collections() -> None:
    op.create_table(
        "collections",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("company_id", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("created_at", TIME, nullable=False, server_default=NOW),
        sa.Column("updated_at", TIME, nullable=False, server_default=NOW),
        sa.Column("files_changed_at", TIME, nullable=False, server_default=NOW),
        # Status, progress, count and size as the last event told them, and the label of what changed its files last.
        sa.Column("told", sa.JSON, nullable=False),
        sa.Column("correlation_id", sa.Text, nullable=False),
    )
    op.create_index("ix_collections_company_id", "collections", ["company_id", "created_at", "id"])
    op.create_index("ix_collections_files_changed_at", "collections", ["files_changed_at"])
    op.create_table(
        "collection_files",
        sa.Column("collection_id", sa.Text, sa.ForeignKey("collections.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("file_id", sa.Text, sa.ForeignKey("files.id"), primary_key=True),
        sa.Column("added_at", TIME, nullable=False, server_default=NOW),
    )
    op.create_index("ix_collection_files_file_id", "collection_files", ["file_id"])
