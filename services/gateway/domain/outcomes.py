"""Terminal events of commands: refusals, failures and the entity in a success."""

from typing import Any, Final

import orjson

from libs.contracts.errors import Conflict, ErrorKind, error_from
from libs.contracts.events.runtime import TurnCancelled, TurnFailed
from libs.contracts.messages import CommandRejected
from libs.eventing import CommandState, Received

_TRANSIENT: Final = frozenset({ErrorKind.RATE_LIMIT, ErrorKind.UNAVAILABLE, ErrorKind.TIMEOUT})


def is_refused_for_now(state: CommandState) -> bool:
    """Whether the upstream did nothing and may accept the same command later."""
    if state.outcome is None or not state.outcome.envelope.type.endswith(".rejected.v1"):
        return False
    return CommandRejected.decode(state.outcome.payload).error.type in _TRANSIENT


def raise_failure(received: Received) -> None:
    """Raises the error of a refusal, failure or cancellation; does nothing for a success."""
    event_type = received.envelope.type
    if event_type.endswith(".rejected.v1"):
        raise error_from(CommandRejected.decode(received.payload).error)
    if event_type == TurnFailed.TYPE:
        raise error_from(TurnFailed.decode(received.payload).error)
    if event_type == TurnCancelled.TYPE:
        raise Conflict("The turn was cancelled.")


def entity_in(received: Received, name: str) -> bytes:
    """Returns a field of a successful event as JSON: the body of the answer."""
    event: dict[str, Any] = orjson.loads(received.payload)
    return orjson.dumps(event[name])


def results_in(received: Received) -> bytes:
    """Returns the ``reply`` of a bulk operation; results of single files have an error only where there is one."""
    reply: dict[str, Any] = orjson.loads(received.payload)["reply"]
    for result in reply.get("results", ()):
        error = result.pop("error", None)
        if error is not None:
            result["error"] = {name: value for name, value in error.items() if value is not None}
    return orjson.dumps(reply)
