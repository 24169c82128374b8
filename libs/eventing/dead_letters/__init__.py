"""Messages that failed permanently. They're dead-lettered with the reason, and operators can replay them."""

from libs.eventing.dead_letters._letter import DeadLetter, DeadLetterTopic, MetadataTooLong, ReplayOffsets
from libs.eventing.dead_letters._session import (
    DeadLetterSession,
    Replay,
    ReplayOutcome,
    ReplayOvertaken,
    TopicContent,
    dead_letter_topic_named,
    dead_letter_topics,
    open_dead_letters,
)
from libs.eventing.dead_letters._writer import DeadLetters

__all__ = [
    "DeadLetter",
    "DeadLetterSession",
    "DeadLetterTopic",
    "DeadLetters",
    "MetadataTooLong",
    "Replay",
    "ReplayOffsets",
    "ReplayOutcome",
    "ReplayOvertaken",
    "TopicContent",
    "dead_letter_topic_named",
    "dead_letter_topics",
    "open_dead_letters",
]
