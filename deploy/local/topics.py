"""Creates the declared topics in the stack's Kafka, and remembers that it did."""

import hashlib
from pathlib import Path

from deploy.local.files import write_atomically
from deploy.local.home import PROJECT_ROOT
from deploy.local.kafka import Kafka

_DECLARATION = PROJECT_ROOT / "libs" / "contracts" / "topics.py"


async def create_topics(kafka: Kafka, prefix: str) -> None:
    # Imported late: the Kafka client takes a while to load and only this step needs it.
    from libs.eventing import KafkaSettings
    from libs.eventing import create_topics as create

    await create(KafkaSettings.model_validate(kafka.settings).kafka(), prefix)


def are_created(directory: Path, prefix: str) -> bool:
    """Whether the Kafka that keeps its data in this directory has all topics as they are declared now."""
    mark = _mark(directory)
    return mark.exists() and mark.read_text() == _fingerprint(prefix)


def remember_created(directory: Path, prefix: str) -> None:
    write_atomically(_mark(directory), _fingerprint(prefix))


def _mark(directory: Path) -> Path:
    return directory / "topics-created"


def _fingerprint(prefix: str) -> str:
    return f"{prefix} {hashlib.sha256(_DECLARATION.read_bytes()).hexdigest()}"
