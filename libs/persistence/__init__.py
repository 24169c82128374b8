"""Access to PostgreSQL: connection pool, transactions, outage handling, leases and schema migrations."""

from libs.persistence._database import (
    Connection,
    Database,
    Parameters,
    as_json,
    embedded_json,
    fetch_records,
    fetch_value,
)
from libs.persistence._errors import is_outage, is_unreachable, retry_until_available
from libs.persistence._leases import LeasedWork, TaskLease, renewed_leases
from libs.persistence._liveness import Holders, Presence, ReclaimWork
from libs.persistence._migrations import IncompatibleSchema, is_migrated, migrate, newest_revision
from libs.persistence._pages import NEWEST_FIRST, Order, fetch_page

__all__ = [
    "NEWEST_FIRST",
    "Connection",
    "Database",
    "Holders",
    "IncompatibleSchema",
    "LeasedWork",
    "Order",
    "Parameters",
    "Presence",
    "ReclaimWork",
    "TaskLease",
    "as_json",
    "embedded_json",
    "fetch_page",
    "fetch_records",
    "fetch_value",
    "is_migrated",
    "is_outage",
    "is_unreachable",
    "migrate",
    "newest_revision",
    "renewed_leases",
    "retry_until_available",
]
