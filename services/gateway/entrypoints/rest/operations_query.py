"""The query of ``GET /operations/dead-letters/``, and the position that its pages hand on."""

import base64
import binascii
from typing import Annotated, Final

import orjson
from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema
from pydantic.json_schema import SkipJsonSchema

from libs.eventing.dead_letters import dead_letter_topics
from services.gateway.entrypoints.door.queries import DEFAULT_LIMIT, Limit, QueryModel, refused_parameter
from services.gateway.use_cases.dead_letters import DeadLetterQuery, Positions

_TOPICS: Final = tuple(topic.name for topic in dead_letter_topics())
_TRUTH: Final = {"true": True, "false": False}
_LONGEST: Final = 4000


def _topic(name: str) -> str:
    if name not in _TOPICS:
        raise refused_parameter("topic", "must be a dead-letter topic", f"topic={_TOPICS[0]}")
    return name


def _replayed(text: str) -> bool:
    if text not in _TRUTH:
        raise refused_parameter("replayed", "must be true or false", "replayed=false")
    return _TRUTH[text]


def _positions(text: str) -> Positions:
    if len(text) <= _LONGEST:
        try:
            found = orjson.loads(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))
        except (binascii.Error, ValueError):
            found = None
        if isinstance(found, dict) and all(type(offset) is int and offset >= 0 for offset in found.values()):
            return found
    raise refused_parameter("after", "must be the next of a page", "leave it out to begin with the newest")


_Topic = Annotated[str, AfterValidator(_topic), WithJsonSchema({"type": "string", "enum": list(_TOPICS)})]
_Replayed = Annotated[bool, BeforeValidator(_replayed)]
_After = Annotated[Positions, BeforeValidator(_positions), WithJsonSchema({"type": "string", "maxLength": _LONGEST})]


class FailuresQuery(QueryModel):
    correlation_id: str | SkipJsonSchema[None] = Field(None, description="Only failures of this correlation id.")


class DeadLettersQuery(QueryModel):
    topic: _Topic | SkipJsonSchema[None] = Field(None, description="Only letters of this dead-letter topic.")
    correlation_id: str | SkipJsonSchema[None] = Field(None, description="Only letters of this correlation id.")
    replayed: _Replayed | SkipJsonSchema[None] = Field(
        None, description="Only letters that were replayed, or were not."
    )
    after: _After | SkipJsonSchema[None] = Field(None, description="The `next` of the page before.")
    limit: Limit = Field(DEFAULT_LIMIT, description="Items in the page.")

    @property
    def wanted(self) -> DeadLetterQuery:
        return DeadLetterQuery(
            topic=self.topic,
            correlation_id=self.correlation_id,
            replayed=self.replayed,
            after=self.after,
            limit=self.limit,
        )


def cursor_of(positions: Positions | None) -> str | None:
    """The positions as text, opaque to callers."""
    if positions is None:
        return None
    return base64.urlsafe_b64encode(orjson.dumps(dict(positions))).decode().rstrip("=")
