"""Tools are read and written where they stand in a configuration's text."""

import pytest
import yaml

from tests.unit.gateway.studio.conftest import Run

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
    assert run("model/tool_names.js", "m.toolsIn(given).names", text) == names
    for wanted in (["x", "shop.*"], []):
        changed = run("model/tool_names.js", "m.withTools(given[0], given[1])", [text, wanted])
        assert yaml.safe_load(changed) == {**yaml.safe_load(text), "tools": wanted}


def test_days_without_usage_are_nothing(run: Run) -> None:
    days = run("model/days.js", "m.lastDays(3, Date.parse('2026-03-01T12:00:00Z'))")
    assert days == ["2026-02-27", "2026-02-28", "2026-03-01"]
    items = [{"day": "2026-02-28", "cost": "0.25"}]
    assert run("model/days.js", "m.byDay(given[0], given[1], ['cost'])", [days, items]) == {"cost": [0, 0.25, 0]}
