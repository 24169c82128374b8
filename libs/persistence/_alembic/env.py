"""Alembic's environment: all missing revisions in one transaction."""

import psycopg
from alembic import context
from sqlalchemy import MetaData, create_engine
from sqlalchemy.pool import NullPool

from libs.persistence._migrations import NAMING_CONVENTION

url = context.config.attributes["url"]
engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(url), poolclass=NullPool)
with engine.connect() as connection:
    context.configure(connection=connection, target_metadata=MetaData(naming_convention=NAMING_CONVENTION))
    with context.begin_transaction():
        context.run_migrations()
engine.dispose()
