from datetime import UTC, datetime

import jsonschema_rs
import pytest

from services.runtime.adapters.tools.builtin import builtin_tools
from services.runtime.adapters.tools.calculator import Calculator
from services.runtime.adapters.tools.current_time import CurrentTime
from services.runtime.adapters.tools.knowledge_search import KnowledgeSearch
from services.runtime.domain.conversation import Citation
from services.runtime.domain.knowledge import KnowledgeBaseRef
from services.runtime.domain.tools import Toolbox, ToolContext, ToolFailed
from tests.support.agent_fakes import CALLER, FakeRetriever, FakeTool

CONTEXT = ToolContext("call", "turn", "session", CALLER, (KnowledgeBaseRef("kb"),))
MOMENT = datetime(2026, 11, 21, 23, 30, tzinfo=UTC)


async def test_calculator() -> None:
    assert (await Calculator().call({"expression": " 6*7 "}, CONTEXT)).text == "6*7 = 42"
    with pytest.raises(ToolFailed, match="can't compute '1/0': division by zero"):
        await Calculator().call({"expression": "1/0"}, CONTEXT)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "Saturday, 2026-11-21 23:30:00 UTC (UTC+00:00)"),
        ({"timezone": "Europe/Madrid"}, "Sunday, 2026-11-22 00:30:00 Europe/Madrid (UTC+01:00)"),
        ({"timezone": "Asia/Kolkata"}, "Sunday, 2026-11-22 05:00:00 Asia/Kolkata (UTC+05:30)"),
    ],
)
async def test_current_time(arguments: dict[str, str], text: str) -> None:
    assert (await CurrentTime(lambda: MOMENT).call(arguments, CONTEXT)).text == text


@pytest.mark.parametrize("zone", ["Mars/Olympus", "../../etc/passwd", "/etc/localtime", "Europe", "a\0b"])
async def test_unknown_time_zones(zone: str) -> None:
    with pytest.raises(ToolFailed, match="unknown time zone"):
        await CurrentTime().call({"timezone": zone}, CONTEXT)


async def test_knowledge_search() -> None:
    passage = Citation("The tower is white.", file_name="tower.md", page=2)
    retriever = FakeRetriever(passage, warnings=("base x is gone",))
    output = await KnowledgeSearch(retriever).call({"query": "tower"}, CONTEXT)
    assert output.text == "Warning: base x is gone\n\n[1] (tower.md, page 2) The tower is white."
    assert output.citations == (passage,)
    assert retriever.queries == [("tower", ("kb",), CALLER)]


async def test_knowledge_search_without_a_find_says_so() -> None:
    output = await KnowledgeSearch(FakeRetriever()).call({"query": "tower"}, CONTEXT)
    assert output.text == "No passage matches this query."


def test_every_built_in_tool_is_safe_and_has_a_valid_schema() -> None:
    toolbox = builtin_tools(retriever=FakeRetriever())
    assert list(toolbox) == ["calculator", "current_time", "http_get", "knowledge_search"]
    for entry in toolbox.to_json():
        assert entry["safe_to_repeat"] is True
        jsonschema_rs.meta.validate(entry["parameters"])


def test_without_a_retriever_there_is_no_search() -> None:
    assert "knowledge_search" not in builtin_tools()


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="echo"):
        Toolbox(FakeTool(), FakeTool())
