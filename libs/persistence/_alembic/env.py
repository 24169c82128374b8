"""Alembic's environment: each missing revision in a transaction of its own."""

from typing import Any

import psycopg
from alembic import context
from alembic.runtime.migration import MigrationContext, MigrationInfo
from sqlalchemy import MetaData, create_engine, text
from sqlalchemy.pool import NullPool

from libs.persistence._migrations import LOCK_TIMEOUT, NAMING_CONVENTION

url = context.config.attributes["url"]


def record_origin(ctx: MigrationContext, step: MigrationInfo, *_: Any, **__: Any) -> None:
    """Stores, in the transaction of the first revision, which state of it has made the database."""
    if step.down_revision_ids or ctx.connection is None:
        return
    ctx.connection.execute(text("ALTER TABLE alembic_version ADD COLUMN origin text"))
    ctx.connection.execute(
        text("UPDATE alembic_version SET origin = :origin"), {"origin": context.config.attributes["origin"]}
    )


engine = create_engine(
    "postgresql+psycopg://", creator=lambda: psycopg.connect(url, options=LOCK_TIMEOUT), poolclass=NullPool
)
with engine.connect() as connection:
    # A revision that keeps its locks while the next one waits for others ends in a deadlock with a running release.
    context.configure(
        connection=connection,
        target_metadata=MetaData(naming_convention=NAMING_CONVENTION),
        transaction_per_migration=True,
        on_version_apply=record_origin,
    )
    with context.begin_transaction():
        context.run_migrations()
engine.dispose()
