"""Configurations are written as YAML that reads as the same values, and places are found in it."""

from typing import Any

import pytest
import yaml

from tests.unit.web.conftest import Run

CONFIGURATION: dict[str, Any] = {
    "name": "a: b # c",
    "system_prompt": "You answer.\n\n  Indented.\nEnd\n",
    "llm_config": {"model": "openai:gpt-4o-mini", "temperature": 0.2, "stop": None},
    "tools": ["calculator", "shop.*", "yes", "1"],
    "knowledge_bases": [{"id": "k", "top_k": 3}, "other"],
    "client_tools": [],
    "output_schema": {"type": "object", "properties": {"a": {"enum": ["x", 1, True]}}},
}


HARD = ("", " lead\nx", "trail \nx", "two\n\n", "tab\tx", "ünïcode ⛴️", "- x", "{a}", "null", "3e4", "'")


@pytest.mark.parametrize("text", HARD)
def test_any_text_reads_as_the_same(run: Run, text: str) -> None:
    given = {**CONFIGURATION, "system_prompt": text, "nested": {"deep": [text, {"deeper": text}]}}
    assert yaml.safe_load(run("model/yaml.js", "m.toYaml(given)", given)) == given


PLACES = (
    (["llm_config", "temperature"], "temperature: 0.2"),
    (["tools", 1], "shop.*"),
    (["knowledge_bases", 0, "top_k"], "top_k"),
)


@pytest.mark.parametrize(("path", "line"), PLACES)
def test_a_place_is_found_by_its_path(run: Run, path: list[Any], line: str) -> None:
    text = run("model/yaml.js", "m.toYaml(given)", CONFIGURATION)
    number = run("model/yaml.js", "m.lineOf(given[0], given[1])", [text, path])
    assert line in text.splitlines()[number - 1]


def test_a_place_that_is_not_there_has_no_line(run: Run) -> None:
    assert run("model/yaml.js", "m.lineOf('name: x\\n', ['tools'])") is None


def test_a_difference_keeps_what_is_common(run: Run) -> None:
    lines = run("model/yaml.js", "m.lineDiff('a\\nb\\nc', 'a\\nc\\nd')")
    assert lines == [[" ", "a"], ["-", "b"], [" ", "c"], ["+", "d"]]
