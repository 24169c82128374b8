"""Dead letters, for operators to inspect and replay."""

from libs.eventing.dead_letters._letter import DeadLetter, MetadataTooLong, ReplayOffsets
from libs.eventing.dead_letters._reader import (
    DeadLetterReader,
    DeadLetterTopic,
    TopicContent,
    dead_letter_topic_named,
    dead_letter_topics,
    open_dead_letters,
)
from libs.eventing.dead_letters._replay import Replay, ReplayOutcome, ReplayOvertaken, open_replay

__all__ = [
    "DeadLetter",
    "DeadLetterReader",
    "DeadLetterTopic",
    "MetadataTooLong",
    "Replay",
    "ReplayOffsets",
    "ReplayOutcome",
    "ReplayOvertaken",
    "TopicContent",
    "dead_letter_topic_named",
    "dead_letter_topics",
    "open_dead_letters",
    "open_replay",
]
