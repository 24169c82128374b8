"""The names of a turn's outcomes, as event types and as statuses."""

from typing import Final

from libs.contracts.messages import public_name
from libs.contracts.resources.turns import TURN_ENDS

END_TYPES: Final = frozenset(event.TYPE for event in TURN_ENDS)
"""Event types on Kafka."""
END_NAMES: Final = frozenset(map(public_name, END_TYPES))
"""Event types in the API."""
ENDED_STATUSES: Final = frozenset(name.removeprefix("turn.") for name in END_NAMES)
"""Turn statuses in the API."""
