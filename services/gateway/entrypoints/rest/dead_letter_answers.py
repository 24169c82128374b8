"""Renders dead-lettered messages, without secrets."""

import re
from typing import Any, Final

import orjson

from libs.contracts.resources import operations as schemas
from libs.eventing.dead_letters import DeadLetter
from services.gateway.domain.masking import mask_text, mask_value
from services.gateway.domain.operations import letter_id
from services.gateway.use_cases.dead_letters import ListedLetter

_ERROR: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_.]{0,100})\((.*)\)", re.DOTALL)
_LARGEST: Final = 256 * 1024
"""The maximum size of a displayed payload, in bytes."""


def shown(listed: ListedLetter) -> schemas.DeadLetter:
    return schemas.DeadLetter.model_validate(_fields(listed))


def shown_in_full(listed: ListedLetter) -> schemas.DeadLetterDetail:
    document = listed.letter.as_json(listed.replayed)
    return schemas.DeadLetterDetail.model_validate(
        {
            **_fields(listed),
            "partition": document["partition"],
            "offset": document["original_offset"],
            "headers": {mask_text(name): mask_text(value) for name, value in document["headers"].items()},
            "payload": _payload(listed.letter),
        }
    )


def _fields(listed: ListedLetter) -> dict[str, Any]:
    letter = listed.letter
    summary = letter.summary(listed.replayed)
    return {
        "id": letter_id(listed.topic.name, letter.offset),
        "topic": listed.topic.name,
        "source_topic": listed.topic.source,
        "consumer": listed.topic.consumer,
        "type": _masked(summary["type"]),
        "event_id": _masked(summary["id"]),
        "company_id": _masked(letter.company_id),
        "correlation_id": _masked(summary["correlation_id"]),
        "cause": _cause(summary["reason"] or ""),
        "attempts": summary["attempts"],
        "dead_since": summary["dead_since"],
        "replayed": summary["replayed"],
        "payload_bytes": letter.payload_bytes,
    }


def _masked(text: str | None) -> str | None:
    return None if text is None else mask_text(text)


def _cause(reason: str) -> dict[str, str]:
    """Parses the cause: ``Name('message')`` for a failure, or a sentence for an unreadable message."""
    found = _ERROR.fullmatch(reason.strip())
    if found is None:
        return {"code": "poison_message", "message": mask_text(reason)}
    return {"code": found[1], "message": mask_text(found[2].strip("'\""))}


def _payload(letter: DeadLetter) -> dict[str, Any]:
    if letter.original_position is not None:
        return _not_shown(
            "The payload was too large for the dead-letter topic. A replay reads it from the original topic."
        )
    if len(letter.value) > _LARGEST:
        return _not_shown(f"The payload is larger than {_LARGEST // 1024} KiB.")
    try:
        value = orjson.loads(letter.value)
    except orjson.JSONDecodeError:
        # Secrets in other formats can't be masked.
        return _not_shown("The payload isn't JSON.")
    return {"value": mask_value(value), "note": None}


def _not_shown(note: str) -> dict[str, Any]:
    return {"value": None, "note": note}
