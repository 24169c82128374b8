"""Commands and events over a message broker, with an outbox, an inbox, consumers, and request and reply."""

from libs.eventing._commands import CommandRouter, RevokedKeys
from libs.eventing._consumer import ConsumerLoop
from libs.eventing._events import EventRouter
from libs.eventing._identity_tokens import IdentitySigner
from libs.eventing._inbox import AlreadyProcessed
from libs.eventing._kafka_bus import KafkaBus
from libs.eventing._kafka_connection import KafkaConnection, KafkaSettings, is_bus_outage
from libs.eventing._outbox import Outbox, Transaction
from libs.eventing._relay import Relay
from libs.eventing._retention import EntityTable, Expiry, Retention
from libs.eventing.request_reply import CommandSender, LookUp, Replies, ReplyState

__all__ = [
    "AlreadyProcessed",
    "CommandRouter",
    "CommandSender",
    "ConsumerLoop",
    "EntityTable",
    "EventRouter",
    "Expiry",
    "IdentitySigner",
    "KafkaBus",
    "KafkaConnection",
    "KafkaSettings",
    "LookUp",
    "Outbox",
    "Relay",
    "Replies",
    "ReplyState",
    "Retention",
    "RevokedKeys",
    "Transaction",
    "is_bus_outage",
]
