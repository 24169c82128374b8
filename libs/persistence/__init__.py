"""PostgreSQL: a pool with transactions, and schema migrations."""

from libs.persistence._database import Connection, Database, is_contention, is_outage
from libs.persistence._migrations import is_migrated, migrate
from libs.persistence._outlasting import outlast

__all__ = ["Connection", "Database", "is_contention", "is_migrated", "is_outage", "migrate", "outlast"]
