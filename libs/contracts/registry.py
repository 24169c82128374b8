"""All modules with messages, for documents and tests."""

from types import ModuleType
from typing import Final

from libs.contracts import commands, events
from libs.contracts.resources import budgets, retention

RESOURCES: Final[tuple[ModuleType, ...]] = (budgets, retention)
BY_KIND: Final[tuple[ModuleType, ...]] = (commands, events)
"""Messages of resources without a module in ``RESOURCES``."""
