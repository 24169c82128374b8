"""Alembic's environment: each missing revision in a transaction of its own."""

import psycopg
from alembic import context
from sqlalchemy import MetaData, create_engine
from sqlalchemy.pool import NullPool

from libs.persistence._migrations import LOCK_TIMEOUT, NAMING_CONVENTION

url = context.config.attributes["url"]
engine = create_engine(
    "postgresql+psycopg://", creator=lambda: psycopg.connect(url, options=LOCK_TIMEOUT), poolclass=NullPool
)
with engine.connect() as connection:
    # A revision that keeps its locks while the next one waits for others ends in a deadlock with a running release.
    context.configure(
        connection=connection,
        target_metadata=MetaData(naming_convention=NAMING_CONVENTION),
        transaction_per_migration=True,
    )
    with context.begin_transaction():
        context.run_migrations()
engine.dispose()
