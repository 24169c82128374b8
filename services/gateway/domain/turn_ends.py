"""The names of a turn's ends: as event types and as statuses."""

from typing import Final

from libs.contracts.messages import public_name
from libs.contracts.resources.turns import TURN_ENDS

END_TYPES: Final = frozenset(event.TYPE for event in TURN_ENDS)
"""Types of events on Kafka."""
END_NAMES: Final = frozenset(map(public_name, END_TYPES))
"""Types of events, as in the API."""
ENDED_STATUSES: Final = frozenset(name.removeprefix("turn.") for name in END_NAMES)
"""Statuses of a turn in the API."""
