"""Bodies of ``/webhooks/…``."""

import re
from functools import cache
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import AfterValidator, Field

from libs.contracts.messages import public_name
from libs.contracts.models import StrictModel
from libs.contracts.registry import published_messages
from libs.contracts.topics import TopicKind

_DAY: Final = 86_400
_EVENT_TYPE: Final = re.compile(r"\*|[a-z0-9_]+(\.[a-z0-9_]+)*(\.?\*)?")


@cache
def recorded_types() -> frozenset[str]:
    """Names of all events that the timeline records."""
    events = (name for name, (_, topic) in published_messages().items() if topic.kind is TopicKind.EVENTS)
    return frozenset(map(public_name, events))


def _event_type(text: str) -> str:
    known = recorded_types()
    if text not in known and not (text.endswith("*") and any(each.startswith(text[:-1]) for each in known)):
        raise ValueError("there is no recorded event of this name; a prefix ends in an asterisk")
    return text


EventTypeName = Annotated[
    str,
    AfterValidator(_event_type),
    Field(max_length=100, pattern=f"^({_EVENT_TYPE.pattern})$", examples=["turn.completed", "knowledge_base.*", "*"]),
]
EventTypes = Annotated[
    list[EventTypeName],
    Field(min_length=1, max_length=50, description="Event types, or prefixes that end in `*`."),
]
Url = Annotated[
    str,
    Field(
        min_length=1,
        max_length=2000,
        description="The URL that receives POST requests. It must be public, with `https` or `http`.",
    ),
]
Status = Literal["enabled", "disabled"]


class CreateWebhookBody(StrictModel):
    """``POST /webhooks/``."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "ends of turns": {
            "url": "https://example.com/hooks/agents",
            "event_types": ["turn.completed", "turn.failed"],
            "description": "Tickets",
        },
        "everything": {"url": "https://example.com/hooks/audit", "event_types": ["*"]},
    }

    url: Url
    event_types: EventTypes
    description: str = Field(default="", max_length=1000)
    status: Status = "enabled"


class UpdateWebhookBody(StrictModel):
    """``PATCH /webhooks/{id}/``. Omitted fields keep their values."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "other events": {"event_types": ["turn.*", "knowledge_base.ingestion.completed"]},
        "enabled again": {"status": "enabled"},
    }

    url: Url | None = None
    event_types: EventTypes | None = None
    description: str | None = Field(default=None, max_length=1000)
    status: Status | None = Field(
        default=None, description="A re-enabled webhook receives the recorded events since it was disabled."
    )


class RotateWebhookBody(StrictModel):
    """``POST /webhooks/{id}/rotate/``."""

    EXAMPLES: ClassVar[dict[str, Any]] = {"an hour of both": {"grace_seconds": 3600}}

    grace_seconds: int = Field(
        default=_DAY, ge=0, le=30 * _DAY, description="How long deliveries are also signed with the previous secret."
    )
