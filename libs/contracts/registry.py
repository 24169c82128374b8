"""All modules with messages, for documents and tests."""

from types import ModuleType
from typing import Final

from libs.contracts.resources import (
    actions,
    agents,
    artifacts,
    budgets,
    collections,
    connections,
    files,
    keys,
    knowledge_bases,
    messages,
    retention,
    secrets,
    sessions,
    toolsets,
    turns,
    usage,
    webhooks,
)

RESOURCES: Final[tuple[ModuleType, ...]] = (
    actions,
    agents,
    artifacts,
    budgets,
    collections,
    connections,
    files,
    keys,
    knowledge_bases,
    messages,
    retention,
    secrets,
    sessions,
    toolsets,
    turns,
    usage,
    webhooks,
)
