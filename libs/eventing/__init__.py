"""Commands and events over a broker: outbox, inbox, consumers, request and reply."""

from libs.eventing._bus import Bus, BusUnavailable, MessageRefused, Producer, Record
from libs.eventing._commands import CommandContext, CommandRouter
from libs.eventing._connection import KafkaConnection
from libs.eventing._consumer import ConsumerLoop
from libs.eventing._dead_letters import DeadLetters
from libs.eventing._errors import PoisonMessage
from libs.eventing._events import EventRouter
from libs.eventing._identity_tokens import IdentitySigner
from libs.eventing._inbox import AlreadyProcessed
from libs.eventing._kafka import KafkaBus
from libs.eventing._kafka_settings import KafkaSettings
from libs.eventing._memory import MemoryBus
from libs.eventing._metrics import tell_lag
from libs.eventing._origin import EventDraft, Origin
from libs.eventing._outbox import Appended, Outbox, Transaction
from libs.eventing._outbox_table import RecordedEvent
from libs.eventing._payloads import PayloadReader
from libs.eventing._publisher import Publisher
from libs.eventing._refusal import refusal
from libs.eventing._request_reply import CommandSender, CommandState, Received, Replies
from libs.eventing._retry import RetryPolicy
from libs.eventing._topics import Replication, create_topics

__all__ = [
    "AlreadyProcessed",
    "Appended",
    "Bus",
    "BusUnavailable",
    "CommandContext",
    "CommandRouter",
    "CommandSender",
    "CommandState",
    "ConsumerLoop",
    "DeadLetters",
    "EventDraft",
    "EventRouter",
    "IdentitySigner",
    "KafkaBus",
    "KafkaConnection",
    "KafkaSettings",
    "MemoryBus",
    "MessageRefused",
    "Origin",
    "Outbox",
    "PayloadReader",
    "PoisonMessage",
    "Producer",
    "Publisher",
    "Received",
    "Record",
    "RecordedEvent",
    "Replication",
    "Replies",
    "RetryPolicy",
    "Transaction",
    "create_topics",
    "refusal",
    "tell_lag",
]
