"""Modules of plain functions: all of them load, YAML is written, tools have names."""

from typing import Any

import pytest
import yaml

from tests.unit.web.conftest import Run, drawn


def test_all_pages_are_put_together(run: Run) -> None:
    fetched = "m.PAGES.map(async (page) => [page.path, typeof (await m.fetchPage(page))])"
    pages = run("studio/pages.js", f"await Promise.all({fetched})")
    assert pages[0] == ["", "function"]
    assert {kind for _, kind in pages} == {"function"}
    assert len({path for path, _ in pages}) == len(pages)


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


WRITTEN = (
    ("name: a\n", []),
    ("name: a\ntools: []\nmore: 1\n", []),
    ("name: a\ntools: [calculator, 'shop.*']  # two\nmore: 1\n", ["calculator", "shop.*"]),
    ('tools:\n  - calculator\n  # the shop\n  - "shop.*"\n\nmore: 1\n', ["calculator", "shop.*"]),
    ("tools:\n- a  # first\n- b\nllm_config:\n  - x\n", ["a", "b"]),
    ("name: a\ntools:\n", []),
    ("system_prompt: |\n  tools: no\ntools: [a]", ["a"]),
)


@pytest.mark.parametrize(("text", "names"), WRITTEN)
def test_they_are_read_and_replaced(run: Run, text: str, names: list[str]) -> None:
    assert run("model/toolsets.js", "m.toolsIn(given).names", text) == names
    for wanted in (["x", "shop.*"], []):
        changed = run("model/toolsets.js", "m.withTools(given[0], given[1])", [text, wanted])
        assert yaml.safe_load(changed) == {**yaml.safe_load(text), "tools": wanted}


def test_days_without_usage_are_nothing(run: Run) -> None:
    days = run("model/format.js", "m.lastDays(3, Date.parse('2026-03-01T12:00:00Z'))")
    assert days == ["2026-02-27", "2026-02-28", "2026-03-01"]
    items = [{"day": "2026-02-28", "cost": "0.25"}]
    assert run("model/format.js", "m.byDay(given[0], given[1], ['cost'])", [days, items]) == {"cost": [0, 0.25, 0]}


def test_tools_of_many_toolsets_are_read_page_by_page_and_those_of_chosen_ones_are_open(run: Run) -> None:
    names = ["calculator", *(f"set{n}.tool{of}" for n in range(3) for of in range(100))]
    picked = """
      serve(({ query }) => {
        const from = Number(query.offset);
        const page = given.slice(from, from + Number(query.limit));
        const tools = page.map((name) => ({ name, description: "", parameters: {} }));
        return Response.json({ tools, total: given.length, has_more: from + tools.length < given.length });
      });
      draw(m.ToolPicker, { text: "tools: [set1.tool7]", onText: () => {} });
      box.querySelector("details").open = true;
      await until(() => box.querySelectorAll("details.tool-group").length === 3);
      const groups = [...box.querySelectorAll("details.tool-group")];
      const figures = (each) => [each.querySelector("summary").textContent, each.querySelectorAll("input").length];
      return end([groups.map(figures), requests.map(({ query }) => query.offset)]);
    """
    shown, pages = run("studio/parts/agents/tool_picker.js", drawn(picked), names)
    assert shown == [["set0 100 tools", 0], ["set1 1 of 100 selected", 101], ["set2 100 tools", 0]]
    assert pages == ["0", "200"]
