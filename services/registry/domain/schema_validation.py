"""Validates the types, ranges and field names in a document."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from libs.contracts.errors import ErrorDetail, validation_message
from libs.contracts.resources.agents import AgentConfiguration
from services.registry.domain.findings import found
from services.registry.domain.hints import Loc, hint_for

M = TypeVar("M", bound=BaseModel)

_MOST_FINDINGS: Final = 100
_LONGEST_NAME: Final = 200


def is_configuration_like(document: object) -> bool:
    """Returns whether a document is an object with at least one configuration field."""
    return isinstance(document, Mapping) and any(name in AgentConfiguration.model_fields for name in document)


def parse(model: type[M], document: object) -> tuple[M | None, list[ErrorDetail]]:
    """Parses the document strictly. Returns the result, or None and up to 100 errors."""
    try:
        return model.model_validate(document, strict=True), []
    except ValidationError as problem:
        return None, list(islice(_findings(model, document, problem), _MOST_FINDINGS))


def sound_parts(document: object, errors: Iterable[ErrorDetail]) -> tuple[AgentConfiguration, frozenset[str]] | None:
    """Returns the configuration without its invalid fields, and the names of the removed top-level fields.

    A missing name or type is replaced with a placeholder. Returns None if the rest is invalid, too.
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
    """Truncates long field names and replaces unpaired surrogates in them."""
    return tuple(
        step if isinstance(step, int) else step[:_LONGEST_NAME].encode(errors="replace").decode() for step in loc
    )


def _is_link_branch(loc: Loc) -> bool:
    """Returns whether the location contains the type that Pydantic tried for an item of ``knowledge_bases``."""
    return loc[:1] == ("knowledge_bases",) and len(loc) >= 3


def _item(document: Any, loc: Loc) -> object:
    return document[loc[0]][loc[1]]
