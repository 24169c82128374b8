"""Tools are read and written where they stand in a configuration's text."""

import pytest
import yaml

from tests.unit.web.conftest import Run, in_world

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
      const { render, h } = await import("preact");
      const box = document.body.appendChild(document.createElement("div"));
      render(h(m.ToolPicker, { text: "tools: [set1.tool7]", onText: () => {} }), box);
      box.querySelector("details").open = true;
      await until(() => box.querySelectorAll("details.tool-group").length === 3);
      const groups = [...box.querySelectorAll("details.tool-group")];
      const figures = (each) => [each.querySelector("summary").textContent, each.querySelectorAll("input").length];
      const shown = groups.map(figures);
      render(null, box);
      box.remove();
      return [shown, requests.map(({ query }) => query.offset)];
    """
    shown, pages = run("studio/parts/agents/tool_picker.js", in_world(picked), names)
    assert shown == [["set0 100 tools", 0], ["set1 1 of 100 chosen", 101], ["set2 100 tools", 0]]
    assert pages == ["0", "200"]


def test_tools_come_page_by_page(run: Run) -> None:
    pages = """
      const answers = [];
      serve(() => new Promise((resolve) => answers.push(resolve)));
      const { session } = await import("/api/client.js");
      session.set({ state: "in", me: { scopes: ["tools:call"] }, problem: "" });
      const { render, h } = await import("preact");
      const box = document.createElement("div");
      render(h(m.ToolPicker, { text: "type: react_agent", onText: () => null }), box);
      box.querySelector("details").open = true;
      const answer = (at, name, more) => {
        const tools = [{ name, description: "", parameters: { type: "object", properties: {} } }];
        answers[at](Response.json({ tools, total: 2, has_more: more }));
      };
      await until(() => answers.length === 1);
      const shown = () => [box.querySelectorAll(".tool-choice").length, box.textContent.includes("Loading tools…")];
      const states = [shown()];
      answer(0, "one", true);
      await until(() => answers.length === 2);
      await until(() => shown()[0] === 1);
      states.push(shown());
      // What is lost is read again, and not from the beginning.
      answers[1](new Response("", { status: 503 }));
      await until(() => answers.length === 3);
      answer(2, "two", false);
      await until(() => shown()[0] === 2);
      states.push(shown());
      render(null, box);
      session.set({ state: "out", me: null, problem: "" });
      return { states, offsets: requests.map(({ query }) => query.offset) };
    """
    assert run("studio/parts/agents/tool_picker.js", in_world(pages)) == {
        "states": [[0, True], [1, True], [2, False]],
        "offsets": ["0", "1", "1"],
    }
