"""Accepted bodies, and the errors for others."""

import json

import pytest

from libs.contracts.errors import InvalidRequest, ServiceError, UnsupportedMediaType, ValidationFailed
from services.gateway.entrypoints.door.bodies import decode_body
from services.gateway.entrypoints.door.json_text import parse_json
from services.gateway.entrypoints.door.yaml_text import parse_yaml


def test_yaml_and_json_mean_the_same() -> None:
    document = """
    name: Support
    temperature: 0.5
    steps: 3
    public: true
    nothing: null
    day: 2030-01-01
    answer: yes
    tools: [a, "1", 0x1F]
    prompt: |
      two
      lines
    """
    assert parse_yaml(document) == {
        "name": "Support",
        "temperature": 0.5,
        "steps": 3,
        "public": True,
        "nothing": None,
        "day": "2030-01-01",
        "answer": "yes",
        "tools": ["a", "1", 31],
        "prompt": "two\nlines\n",
    }


@pytest.mark.parametrize("parse", [parse_json, parse_yaml])
@pytest.mark.parametrize("number", ["1e999", "-1e999", "9" * 19, "9" * 5000])
def test_numbers_that_nothing_can_hold_are_not_valid(parse: object, number: str) -> None:
    with pytest.raises(ValidationFailed):
        parse('{"a": ' + number + "}")  # type: ignore[operator]


def test_a_nul_character_is_named_by_its_place() -> None:
    with pytest.raises(ValidationFailed) as problem:
        parse_json('{"a": ["fine", "not \\u0000"]}')
    assert [detail.loc for detail in problem.value.details or []] == [["a", 1]]


def test_the_report_of_nul_characters_is_bounded() -> None:
    with pytest.raises(ValidationFailed) as problem:
        parse_json(json.dumps({"n" * 1000: ["\0"] * 1000}))
    details = problem.value.details or []
    assert len(details) == 50
    assert details[0].loc == ["n" * 200, 0]


@pytest.mark.parametrize(
    ("content_type", "body", "error"),
    [
        ("application/json", b'{"a": 1}', None),
        ("application/JSON; charset=UTF-8", b'{"a": 1}', None),
        ("application/yaml", b"a: 1", None),
        ("application/x-yaml", b"a: 1", None),
        ("text/yaml; charset=utf-8", b"a: 1", None),
        ("text/x-yaml", b"a: 1", None),
        ("application/vnd.agent+yaml", b"a: 1", None),
        ("", b'{"a": 1}', UnsupportedMediaType),
        ("text/plain", b'{"a": 1}', UnsupportedMediaType),
        ("application/x-www-form-urlencoded", b"a=1", UnsupportedMediaType),
        ("application/json; charset=utf-16", b'{"a": 1}', UnsupportedMediaType),
        ("application/json", b'{"a": "\xff"}', InvalidRequest),
    ],
)
async def test_the_media_type_decides(content_type: str, body: bytes, error: type[ServiceError] | None) -> None:
    if error is None:
        assert await decode_body(body, content_type) == {"a": 1}
    else:
        with pytest.raises(error):
            await decode_body(body, content_type)
