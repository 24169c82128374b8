"""Alembic's environment, which runs each pending revision in its own transaction."""

from typing import Any

import psycopg
from alembic import context
from alembic.runtime.migration import MigrationContext, MigrationInfo
from sqlalchemy import Connection, MetaData, create_engine, event, text
from sqlalchemy.pool import NullPool

from libs.persistence._migrations import LOCK_TIMEOUT, NAMING_CONVENTION

url = context.config.attributes["url"]


def record_origin(ctx: MigrationContext, step: MigrationInfo, *_: Any, **__: Any) -> None:
    """Records a digest of the first revision in the transaction that runs it."""
    if step.down_revision_ids or ctx.connection is None:
        return
    ctx.connection.execute(text("ALTER TABLE alembic_version ADD COLUMN origin text"))
    ctx.connection.execute(
        text("UPDATE alembic_version SET origin = :origin"), {"origin": context.config.attributes["origin"]}
    )


engine = create_engine(
    "postgresql+psycopg://", creator=lambda: psycopg.connect(url, prepare_threshold=None), poolclass=NullPool
)


@event.listens_for(engine, "begin")
def limit_waits(connection: Connection) -> None:
    connection.exec_driver_sql(LOCK_TIMEOUT)


with engine.connect() as connection:
    # A revision that kept its locks while the next one waits would deadlock with the running release.
    context.configure(
        connection=connection,
        target_metadata=MetaData(naming_convention=NAMING_CONVENTION),
        transaction_per_migration=True,
        on_version_apply=record_origin,
    )
    with context.begin_transaction():
        context.run_migrations()
engine.dispose()
