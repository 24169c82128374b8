"""All resources and their messages, used to generate documents and to test contracts."""

from collections.abc import Iterable
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Final, TypeVar

from libs.contracts import resources
from libs.contracts.messages import CommandRejected, Message, command_models, event_models
from libs.contracts.topics import Topic, TopicKind, topic_of

RESOURCES: Final[tuple[ModuleType, ...]] = tuple(
    import_module(f"{resources.__name__}.{each.name}") for each in iter_modules(resources.__path__)
)
M = TypeVar("M", bound=Message)


@cache
def published_messages() -> dict[str, tuple[type[Message], Topic]]:
    """Returns the model and topic of every message, including ``….rejected`` events, by message type."""
    found: dict[str, tuple[type[Message], Topic]] = {}
    for event in _of_contracts(event_models().values()):
        found[event.TYPE] = (event, event.TOPIC)
    for command in _of_contracts(command_models().values()):
        found[command.TYPE] = (command, command.TOPIC)
        found[command.rejected_type()] = (CommandRejected, topic_of(command.TOPIC.owner, TopicKind.EVENTS))
    return dict(sorted(found.items()))


def _of_contracts(models: Iterable[type[M]]) -> list[type[M]]:
    # Subclasses declared elsewhere, for example in a test, aren't published.
    return [model for model in models if model.__module__.startswith(f"{__package__}.")]
