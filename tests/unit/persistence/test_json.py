"""PostgreSQL's text has no NUL character."""

import orjson

from libs.persistence import as_json


def test_a_nul_character_becomes_the_replacement_character() -> None:
    assert orjson.loads(as_json({"text": "a\x00b"})) == {"text": "a\ufffdb"}


def test_the_written_escape_is_kept_as_it_is() -> None:
    value = {"text": "a\\u0000b", "both": "\\\x00\\\\u0000"}
    assert orjson.loads(as_json(value)) == {"text": "a\\u0000b", "both": "\\\ufffd\\\\u0000"}
