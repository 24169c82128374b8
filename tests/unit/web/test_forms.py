"""Forms: arguments from a schema, a toolset as text, the end of a key."""

from typing import Any

import pytest
import yaml

from tests.unit.web.conftest import Run

SCHEMA = {
    "type": "object",
    "required": ["crossing", "cars", "note"],
    "properties": {
        "crossing": {"enum": ["Kiel-Oslo", 7, None], "description": "Which"},
        "cars": {"type": ["integer", "null"], "default": 1},
        "express": {"type": "boolean"},
        "note": {"type": "string"},
        "stops": {"type": "array"},
        "anything": True,
    },
}


def test_each_property_has_a_field_of_its_kind(run: Run) -> None:
    fields = run("model/toolsets.js", "m.fieldsOf(given)", SCHEMA)
    assert {field["name"]: field["kind"] for field in fields} == {
        "crossing": "choice",
        "cars": "number",
        "express": "boolean",
        "note": "text",
        "stops": "json",
        "anything": "json",
    }
    assert [field["name"] for field in fields if field["required"]] == ["crossing", "cars", "note"]
    assert fields[1]["initial"] == "1"


WRITTEN: list[tuple[dict[str, str], dict[str, Any], dict[str, str]]] = [
    ({"crossing": "7", "cars": "2", "note": ""}, {"crossing": 7, "cars": 2, "note": ""}, {}),
    ({"crossing": "null", "cars": "-1.5e3", "note": "1"}, {"crossing": None, "cars": -1500, "note": "1"}, {}),
    (
        {"crossing": '"Kiel-Oslo"', "cars": "0", "note": "x", "express": "false", "stops": "[1]"},
        {"crossing": "Kiel-Oslo", "cars": 0, "note": "x", "express": False, "stops": [1]},
        {},
    ),
    (
        {"crossing": "", "cars": "two", "note": "x", "stops": "[1"},
        {"note": "x"},
        {"crossing": "is required", "cars": "isn't a number", "stops": "isn't valid JSON"},
    ),
]


@pytest.mark.parametrize(("written", "arguments", "problems"), WRITTEN)
def test_what_is_written_becomes_arguments(
    run: Run, written: dict[str, str], arguments: dict[str, Any], problems: dict[str, str]
) -> None:
    read = run("model/toolsets.js", "m.argumentsOf(m.fieldsOf(given[0]), given[1])", [SCHEMA, written])
    assert read == {"arguments": arguments, "problems": problems}


TOOLSET = {
    "name": "fares",
    "type": "http",
    "description": "",
    "headers": {},
    "approval": "always",
    "version": 3,
    "tools": [
        {
            "name": "fare",
            "method": "GET",
            "url": "https://a.example/{x}",
            "headers": {},
            "query": {"cars": "{cars}"},
            "body": None,
            "parameters": {"type": "object"},
            "safe_to_repeat": True,
            "approval": "always",
            "timeout_seconds": 30,
            "retries": 2,
        }
    ],
}


def test_a_toolset_is_shown_as_it_was_configured(run: Run) -> None:
    shown = yaml.safe_load(run("model/toolsets.js", "m.textOf(given)", TOOLSET))
    tool = {"name": "fare", "method": "GET", "url": "https://a.example/{x}", "query": {"cars": "{cars}"}}
    assert shown == {
        "approval": "always",
        "tools": [{**tool, "parameters": {"type": "object"}, "approval": "always"}],
    }


def test_what_is_taken_out_of_the_text_is_removed(run: Run) -> None:
    toolset = {"type": "mcp", "url": "https://a.example", "headers": {"A": "b"}, "retries": 1, "tools": []}
    change = run("model/toolsets.js", "m.changeOf(given[0], given[1])", [toolset, "url: https://b.example"])
    assert yaml.safe_load(change) == {"url": "https://b.example", "headers": {}, "retries": None}


@pytest.mark.parametrize("kind", ["mcp", "openapi", "http"])
def test_every_template_is_yaml(run: Run, kind: str) -> None:
    assert yaml.safe_load(run("model/toolsets.js", "m.TEMPLATES[given]", kind))["type"] == kind


def test_the_end_of_a_key(run: Run) -> None:
    ends = run(
        "studio/parts/forms.js",
        "[m.expiryOf('7', '', 0), m.expiryOf('date', '2031-01-31'), m.expiryOf('', '') ?? null]",
    )
    assert ends[0] == "1970-01-08T00:00:00.000Z"
    assert ends[1] > "2031-01-30"
    assert ends[2] is None
    key = {"revoked_at": None, "expires_at": "1970-01-02T00:00:00Z", "successor_id": None}
    states = run("studio/parts/forms.js", "[0, 1e9].map((now) => m.keyState(given, now))", key)
    assert states == ["active", "expired"]
