"""The query of ``GET /operations/dead-letters/``, and the position that its pages hand on."""

import base64
import binascii
from typing import Final

import orjson
from fastapi import Request

from libs.contracts.errors import ErrorDetail, ValidationFailed
from libs.eventing.dead_letters import dead_letter_topics
from services.gateway.entrypoints.http.reference.described import Described
from services.gateway.entrypoints.http.reference.parameters import LIMIT, query_parameter
from services.gateway.entrypoints.http.validation import DEFAULT_LIMIT, MAX_LIMIT, check_parameters, number_of
from services.gateway.use_cases.dead_letters import DeadLetterQuery, Positions

_NAMES: Final = ("topic", "correlation_id", "replayed", "after", "limit")
_TOPICS: Final = tuple(topic.name for topic in dead_letter_topics())
_TRUTH: Final = {"true": True, "false": False}
_LONGEST: Final = 4000


class DeadLetterParameters(Described):
    """Dependency: the parameters of the query. Raises ``ValidationFailed`` for anything else in it."""

    errors = (422,)
    parameters = (
        query_parameter("topic", "Only letters of this dead-letter topic.", type="string", enum=list(_TOPICS)),
        query_parameter("correlation_id", "Only letters of this correlation id."),
        query_parameter("replayed", "Only letters that were replayed, or were not.", type="boolean"),
        query_parameter("after", "The `next` of the page before.", type="string", maxLength=_LONGEST),
        LIMIT,
    )

    async def __call__(self, request: Request) -> DeadLetterQuery:
        given = check_parameters(request.scope["query_string"], _NAMES)
        topic, replayed = given.get("topic"), given.get("replayed")
        if topic is not None and topic not in _TOPICS:
            raise _invalid("topic", "must be a dead-letter topic", f"topic={_TOPICS[0]}")
        if replayed is not None and replayed not in _TRUTH:
            raise _invalid("replayed", "must be true or false", "replayed=false")
        return DeadLetterQuery(
            topic=topic,
            correlation_id=given.get("correlation_id"),
            replayed=None if replayed is None else _TRUTH[replayed],
            after=_positions(given["after"]) if "after" in given else None,
            limit=number_of(given, "limit", DEFAULT_LIMIT, 1, MAX_LIMIT),
        )


def cursor_of(positions: Positions | None) -> str | None:
    """The positions as text, opaque to callers."""
    if positions is None:
        return None
    return base64.urlsafe_b64encode(orjson.dumps(dict(positions))).decode().rstrip("=")


def _positions(text: str) -> Positions:
    if len(text) <= _LONGEST:
        try:
            found = orjson.loads(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))
        except (binascii.Error, ValueError):
            found = None
        if isinstance(found, dict) and all(type(offset) is int and offset >= 0 for offset in found.values()):
            return found
    raise _invalid("after", "must be the next of a page", "leave it out to begin with the newest")


def _invalid(name: str, message: str, hint: str) -> ValidationFailed:
    detail = ErrorDetail(loc=["query", name], type="invalid", message=message, hint=hint)
    return ValidationFailed(f"The query is not valid: {name} {message}.", details=[detail])
