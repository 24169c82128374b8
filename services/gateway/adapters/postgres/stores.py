"""The gateway's stores in one database."""

from libs.eventing import Outbox
from libs.persistence import Database
from services.gateway.adapters.postgres.connections import PostgresConnections
from services.gateway.adapters.postgres.idempotency import PostgresIdempotency
from services.gateway.adapters.postgres.keys import PostgresKeys
from services.gateway.adapters.postgres.limits import PostgresSharedLimits


class PostgresStores:
    """``connections``: the size of the database's pool. ``gateway_id``: the process that holds places of streams."""

    def __init__(self, database: Database, outbox: Outbox, *, connections: int, gateway_id: str) -> None:
        self.keys = PostgresKeys(database, outbox)
        self.connections = PostgresConnections(database, outbox)
        # Some connections are left to readers and to the processes of all.
        self.idempotency = PostgresIdempotency(database, connections=max(connections - 2, 1))
        self.limits = PostgresSharedLimits(database, gateway_id=gateway_id)
