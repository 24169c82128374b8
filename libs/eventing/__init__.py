"""Commands and events over a broker: outbox, inbox, consumers, request and reply."""

from libs.eventing._admin import kafka_admin
from libs.eventing._batch_consumer import BatchConsumer, BatchHandler
from libs.eventing._bus import Bus, BusUnavailable, MessageRefused, OffsetMove, Overtaken, Partition, Producer, Record
from libs.eventing._commands import CommandRouter, enter_commands
from libs.eventing._consumer import ConsumerLoop
from libs.eventing._dead_letters import DeadLetters
from libs.eventing._events import EventRouter
from libs.eventing._identity_tokens import IdentitySigner
from libs.eventing._inbox import AlreadyProcessed
from libs.eventing._kafka_bus import KafkaBus
from libs.eventing._kafka_connection import KafkaConnection, KafkaSettings, connection_diagnostics, is_bus_outage
from libs.eventing._kafka_groups import KafkaGroups, member_client_id
from libs.eventing._messages import (
    OnEvent,
    OutboxMessage,
    PayloadReader,
    PoisonMessage,
    envelope_of,
)
from libs.eventing._metrics import count_removed, set_lag
from libs.eventing._outbox import Outbox, Transaction
from libs.eventing._relay import Relay
from libs.eventing._request_reply import (
    CommandSender,
    LookUp,
    ReadTooSlowly,
    Replies,
    ReplyState,
)
from libs.eventing._retention import EntityTable, Expiry, Retention
from libs.eventing._revoked_keys import RevokedKeys
from libs.eventing._topics import Replication, create_topics

__all__ = [
    "AlreadyProcessed",
    "BatchConsumer",
    "BatchHandler",
    "Bus",
    "BusUnavailable",
    "CommandRouter",
    "CommandSender",
    "ConsumerLoop",
    "DeadLetters",
    "EntityTable",
    "EventRouter",
    "Expiry",
    "IdentitySigner",
    "KafkaBus",
    "KafkaConnection",
    "KafkaGroups",
    "KafkaSettings",
    "LookUp",
    "MessageRefused",
    "OffsetMove",
    "OnEvent",
    "Outbox",
    "OutboxMessage",
    "Overtaken",
    "Partition",
    "PayloadReader",
    "PoisonMessage",
    "Producer",
    "ReadTooSlowly",
    "Record",
    "Relay",
    "Replication",
    "Replies",
    "ReplyState",
    "Retention",
    "RevokedKeys",
    "Transaction",
    "connection_diagnostics",
    "count_removed",
    "create_topics",
    "enter_commands",
    "envelope_of",
    "is_bus_outage",
    "kafka_admin",
    "member_client_id",
    "set_lag",
]
