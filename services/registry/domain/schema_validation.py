"""Validates the types, ranges and field names in a document against its schema. Each finding has a hint."""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from libs.contracts.errors import ErrorDetail, validation_message
from libs.contracts.origins import is_origin
from libs.contracts.resources.agents import AgentConfiguration, UpdateAgentBody
from services.registry.domain.findings import found
from services.registry.domain.hints import Loc, hint_for

M = TypeVar("M", bound=BaseModel)

_MOST_FINDINGS: Final = 100
_LONGEST_NAME: Final = 200
# The API limits bodies to this nesting depth.
_DEEPEST: Final = 64
_NULLABLE: Final = frozenset({"origin_url", "output_schema"})
_HTTP_URL: Final = re.compile(r"https?://[^\s/?#]+(?:[/?#]\S*)?", re.IGNORECASE)


def is_configuration_like(document: object) -> bool:
    """Returns whether a document is an object with at least one configuration field."""
    return isinstance(document, Mapping) and any(name in AgentConfiguration.model_fields for name in document)


def parse(model: type[M], document: object) -> tuple[M | None, list[ErrorDetail]]:
    """Parses the document with strict types. Returns the result, or None and all errors."""
    errors = list(islice(_unusable_texts(document, ()), _MOST_FINDINGS))
    if issubclass(model, UpdateAgentBody):
        errors += _explicit_nulls(model, document)
    parsed: M | None = None
    try:
        parsed = model.model_validate(document, strict=True)
        errors += _address_errors(parsed)
    except ValidationError as problem:
        errors += islice(_findings(model, document, problem), _MOST_FINDINGS - len(errors))
    return (None if errors else parsed), errors


def sound_parts(document: object, errors: Iterable[ErrorDetail]) -> tuple[AgentConfiguration, frozenset[str]] | None:
    """Returns the configuration without the fields that have ``errors``, and the names of these fields.

    If the name or type is missing, a placeholder is filled in. Returns None if the rest is invalid, too.
    """
    kept: dict[str, Any] = dict(document) if isinstance(document, Mapping) else {}
    removed = set()
    for error in errors:
        field, *inner = error.loc or ("",)
        value = kept.get(str(field))
        if isinstance(value, Mapping) and inner and inner[0] != "model":
            kept[str(field)] = {name: each for name, each in value.items() if name != inner[0]}
        else:
            kept.pop(str(field), None)
            removed.add(str(field))
    made_up = {"name": "-", "agent_type": "react_agent" if kept.get("tools") else "llm_agent"}
    rest, _ = parse(AgentConfiguration, made_up | kept)
    return None if rest is None else (rest, frozenset(removed))


def _findings(model: type[BaseModel], document: object, problem: ValidationError) -> Iterator[ErrorDetail]:
    for error in problem.errors(include_url=False):
        loc, message = tuple(error["loc"]), validation_message(error)
        if _is_link_branch(loc):
            if isinstance(_item(document, loc), Mapping) != (loc[2] == "KnowledgeBaseLink"):
                continue
            loc = (*loc[:2], *loc[3:])
            if error["type"] == "string_type" and len(loc) == 2:
                message = "must be a knowledge base ID, or an object with an id"
        hint = hint_for(model, loc, error["type"], error.get("ctx", {}), error["input"])
        yield found(_printable(loc), error["type"], message, hint)


def _printable(loc: Loc) -> Loc:
    """Makes a location safe to return. It contains field names from the caller, which can be any text."""
    return tuple(
        step if isinstance(step, int) else step[:_LONGEST_NAME].encode(errors="replace").decode() for step in loc
    )


def _is_link_branch(loc: Loc) -> bool:
    """Returns whether Pydantic's location includes which of the two forms of a ``knowledge_bases`` item was tried."""
    return loc[:1] == ("knowledge_bases",) and len(loc) >= 3


def _item(document: Any, loc: Loc) -> object:
    return document[loc[0]][loc[1]]


def _unusable_texts(value: object, loc: Loc) -> Iterator[ErrorDetail]:
    """Yields errors for texts that contain U+0000, which PostgreSQL can't store."""
    if isinstance(value, str) and "\x00" in value:
        message = "Text can't contain the null character (U+0000)"
        yield found(_printable(loc), "null_character", message, "remove the character")
    elif len(loc) >= _DEEPEST:
        return
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _unusable_texts(item, (*loc, str(name)))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _unusable_texts(item, (*loc, index))


def _explicit_nulls(model: type[BaseModel], document: object) -> Iterator[ErrorDetail]:
    """Yields errors for fields that are null, which isn't allowed in a change. Omitted fields keep their values."""
    for name, value in document.items() if isinstance(document, Mapping) else ():
        if value is None and name in model.model_fields and name not in _NULLABLE:
            hint = "omit the field to keep its value, or send a new one"
            yield found((name,), "null_not_allowed", "must not be null", hint)


def _address_errors(body: BaseModel) -> Iterator[ErrorDetail]:
    origin_url = getattr(body, "origin_url", None)
    if origin_url is not None and not _HTTP_URL.fullmatch(origin_url):
        hint = "for example https://example.com/chat"
        yield found(("origin_url",), "url_invalid", "must be an http or https URL", hint)
    for index, origin in enumerate(getattr(body, "allowed_origins", None) or ()):
        if not is_origin(origin):
            message = "must be an origin: a scheme, a host and optionally a port"
            hint = "use an origin such as https://example.com, without a path or a trailing slash"
            yield found(("allowed_origins", index), "origin_invalid", message, hint)
