"""The names of a turn's possible outcomes, as event types and as statuses."""

from typing import Final

from libs.contracts.messages import public_name
from libs.contracts.resources.turns import TURN_ENDS

END_TYPES: Final = frozenset(event.TYPE for event in TURN_ENDS)
"""The outcomes as event types on Kafka."""
END_NAMES: Final = frozenset(map(public_name, END_TYPES))
"""The outcomes as event types in the API."""
ENDED_STATUSES: Final = frozenset(name.removeprefix("turn.") for name in END_NAMES)
"""The outcomes as turn statuses in the API."""
