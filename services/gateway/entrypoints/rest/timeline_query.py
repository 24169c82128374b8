"""The query of ``GET /events/``: which events, from where on, how many."""

import re
from typing import Annotated, Final, Self

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator
from pydantic.json_schema import SkipJsonSchema

from libs.contracts.errors import InvalidRequest
from services.gateway.domain.timeline import TimelineQuery
from services.gateway.entrypoints.door.queries import DEFAULT_LIMIT, Limit, OptionalText, QueryModel, refused_parameter

MAX_POSITION: Final = 2**63 - 1
_MOST_TYPES: Final = 50
_TYPE: Final = re.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9_]+)*(\.?\*)?|\*")
_POSITION: Final = re.compile(r"[0-9]{1,19}", re.ASCII)
_ORDERS: Final = ("asc", "desc")


def _position(name: str) -> BeforeValidator:
    def read(text: str) -> int:
        if _POSITION.fullmatch(text) and int(text) <= MAX_POSITION:
            return int(text)
        raise refused_parameter(name, "must be a position", f"{name}=17")

    return BeforeValidator(read)


def _types(given: tuple[str, ...]) -> tuple[str, ...]:
    types = tuple(dict.fromkeys(each for value in given for each in value.split(",")))
    if len(types) > _MOST_TYPES:
        raise refused_parameter("type", f"names more than {_MOST_TYPES} types", "use a prefix such as turn.*")
    for each in types:
        if len(each) > 100 or not _TYPE.fullmatch(each):
            raise refused_parameter("type", "must be names of events, or prefixes that end in *", "type=turn.completed")
    return types


def _order(order: str) -> str:
    if order not in _ORDERS:
        raise refused_parameter("order", "must be asc or desc", "order=desc")
    return order


_Types = Annotated[tuple[str, ...], AfterValidator(_types), WithJsonSchema({"type": "string"})]
_Order = Annotated[str, AfterValidator(_order), WithJsonSchema({"enum": list(_ORDERS)})]
_After = Annotated[int, Field(ge=0, le=MAX_POSITION), _position("after")]
_Before = Annotated[int, Field(ge=0, le=MAX_POSITION), _position("before")]


class EventsQuery(QueryModel):
    correlation_id: OptionalText = Field(None, description="Only events of this correlation id.")
    session_id: OptionalText = Field(None, description="Only events of this session.")
    turn_id: OptionalText = Field(None, description="Only events of this turn.")
    type: _Types = Field(
        default_factory=tuple,
        description=(
            "Only events of this type, or of types that begin like this when it ends in `*`, such as `turn.*`."
            " Several are separated by commas, or given one by one."
        ),
    )
    order: _Order | SkipJsonSchema[None] = Field(
        None, description="`asc`, oldest first, or `desc`, newest first; pages only."
    )
    after: _After | SkipJsonSchema[None] = Field(
        None, description="Only events after this position: the `next` of the page before."
    )
    before: _Before | SkipJsonSchema[None] = Field(
        None, description="With `order=desc`, only events before this position: the `next` of the page before."
    )
    limit: Limit = Field(DEFAULT_LIMIT, description="Items in the page.")

    @model_validator(mode="after")
    def _in_one_direction(self) -> Self:
        if self.newest_first and self.after is not None:
            raise refused_parameter("after", "is for events in their order", "with order=desc use before")
        if not self.newest_first and self.before is not None:
            raise refused_parameter("before", "is for the newest events first", "add order=desc")
        return self

    @property
    def newest_first(self) -> bool:
        return self.order == "desc"

    @property
    def wanted(self) -> TimelineQuery:
        return TimelineQuery(
            correlation_id=self.correlation_id, session_id=self.session_id, turn_id=self.turn_id, types=self.type
        )

    def check_followed(self) -> None:
        """Raises ``ValidationFailed`` for what only pages can do."""
        if self.newest_first:
            message = "is for pages: a stream goes on in the order of the events"
            raise refused_parameter("order", message, "leave it out")


def last_event_id(header: str | None) -> int | None:
    """The position in a ``Last-Event-ID``. Raises ``InvalidRequest`` for anything else."""
    if header is None or header == "":
        # A browser that has seen no event yet sends none; some clients send an empty one.
        return None
    if _POSITION.fullmatch(header) and int(header) <= MAX_POSITION:
        return int(header)
    raise InvalidRequest("The Last-Event-ID must be the id of an event that was received: a position.")
