"""The generated pages on routes are the baseline of the public API: they show every change of it to its reviewers."""

from collections.abc import Callable, Iterator
from copy import copy
from functools import cache, partial
from typing import Any, Final

from services.gateway.entrypoints.rest.application import openapi_document
from tools.reference.references import resolved
from tools.reference.routes import Routes

# An array, what agents can be built from, sums over a time, and the characters of a text.
NO_LISTS: Final = {"agents.list", "models.list", "tools.list", "usage.get", "files.text"}
WORDS: Final = frozenset({"description", "title", "example", "examples", "summary", "tags"})
JSON: Final = "application/json"


@cache
def document() -> dict[str, Any]:
    return openapi_document()


def operations() -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document()["paths"].items():
        yield from ((f"{method.upper()} {path}", operation) for method, operation in methods.items())


def test_the_pages_show_every_change_of_a_schema() -> None:
    shown = Routes(document()).objects
    for name, schema in document()["components"]["schemas"].items():
        assert unseen(schema, partial(shown.description, name)) == [], name


def test_the_pages_show_every_change_of_an_operation() -> None:
    shown = Routes(document())
    for route in shown.routes:
        text = partial(shown.operation, route)
        assert unseen(route.operation, lambda text=text: text() + Routes(document()).defaults()) == [], route.title


def test_the_index_shows_every_change_of_what_operations_share() -> None:
    for name, shared in document()["components"].items():
        assert name == "schemas" or unseen(shared, Routes(document()).index) == [], name


def test_the_pages_show_every_operation() -> None:
    pages = "".join(Routes(document()).pages().values())
    for name, _ in operations():
        assert f"## {name.replace('/api/v1', '', 1)}\n" in pages


def unseen(part: Any, shown: Callable[[], str]) -> list[str]:
    """Changes of the part that don't change the text."""
    before = shown()
    found = []
    for holder, key in [*changeable(part)]:
        was = copy(holder)
        for change in (removed, replaced):
            change(holder, key)
            try:
                if holder != was and shown() == before:
                    found.append(f"{change.__name__}: {key} of {was}")
            except (KeyError, ValueError):
                # The pages can't be generated from it.
                pass
            finally:
                restored(holder, was)
    return found


def changeable(part: Any, inside: str = "") -> Iterator[tuple[Any, Any]]:
    """Objects and arrays in a part, each with a key or position of the contract."""
    for key, value in part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ():
        if isinstance(part, dict) and inside != "properties" and follows(part, key):
            continue
        reference, place = (value.get("$ref", ""), value.get("in")) if isinstance(value, dict) else ("", "")
        if place != "path":
            yield part, key
        if not reference.endswith(f"/{key}"):
            yield from changeable(value, inside if isinstance(part, list) else key)


def follows(part: dict[str, Any], key: str) -> bool:
    """Whether the value is only words, or follows from the path, the allowed values, or a default."""
    match part:
        case {"const": _} | {"enum": _} if key == "type":
            return True
        case {"in": "path"} if key != "schema":
            return True
        case {"propertyName": _} if key == "mapping":
            return True
        case {"default": None} if key == "default":
            return True
        case {"required": False} if key == "required":
            return True
    return key in WORDS


def removed(holder: Any, key: Any) -> None:
    del holder[key]


def replaced(holder: Any, key: Any) -> None:
    match holder[key]:
        case bool(value):
            holder[key] = not value
        case int(value) | float(value):
            holder[key] = value + 1
        case str(value) if "/schemas/" in value:
            holder[key] = "#/components/schemas/" + ("ErrorInfo" if value.endswith("/ErrorBody") else "ErrorBody")
        case str(value):
            holder[key] = f"{value}x"


def restored(holder: Any, was: Any) -> None:
    holder.clear()
    holder.update(was) if isinstance(holder, dict) else holder.extend(was)


def test_a_list_goes_on_behind_its_last_entry() -> None:
    for name, operation in operations():
        parameters = {resolved(each, document())["name"] for each in operation["parameters"]}
        if "limit" not in parameters or operation["operationId"] in NO_LISTS:
            continue
        assert "after" in parameters, name
        page = resolved(operation["responses"]["200"]["content"][JSON]["schema"], document())["properties"]
        assert {"has_more", "next"} <= page.keys(), name
        if "offset" in parameters:
            assert {"total", "total_is_exact"} <= page.keys(), name


def test_answers_that_are_whole_arrays_are_known() -> None:
    answers = {name: each["responses"].get("200", {}).get("content", {}).get(JSON) for name, each in operations()}
    arrays = {name for name, content in answers.items() if content and content["schema"].get("type") == "array"}
    assert arrays == {"GET /api/v1/agent/"}
