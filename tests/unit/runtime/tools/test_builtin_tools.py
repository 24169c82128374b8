"""Built-in tools, expressions of the calculator, and results that are cut."""

from datetime import UTC, datetime

import jsonschema_rs
import pytest

from services.runtime.adapters.tools.builtin import builtin_tools
from services.runtime.adapters.tools.calculator import Calculator
from services.runtime.adapters.tools.current_time import CurrentTime
from services.runtime.adapters.tools.expression import ExpressionError, evaluate
from services.runtime.adapters.tools.knowledge_search import KnowledgeSearch
from services.runtime.domain.conversation import Citation
from services.runtime.domain.knowledge import KnowledgeBaseRef
from services.runtime.domain.tools import Toolbox, ToolContext, ToolFailed, cut_result
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


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1+2*3", "7"),
        ("(1+2)*3", "9"),
        ("0.1+0.2", "0.3"),
        ("10/4", "2.5"),
        ("1/3", "0.3333333333333333333333333333"),
        ("2^3^2", "512"),
        ("-2^2", "-4"),
        ("(-2)**2", "4"),
        ("2^-2", "0.25"),
        ("7//2", "3"),
        ("-7//2", "-4"),
        ("7%3", "1"),
        ("-7 mod 3", "2"),
        ("20%", "0.2"),
        ("12.5% * 80", "10"),
        ("200 - 10%", "199.9"),
        ("5!", "120"),
        ("2^3!", "64"),
        ("1e3*2", "2000"),
        (".5 + 5.", "5.5"),
        ("sqrt(2)", "1.414213562373095048801688724"),
        ("sqrt(144)+abs(-3)", "15"),
        ("round(2.345, 2)", "2.35"),
        ("round(2.5)", "3"),
        ("max(1, 2, 3) - min(4, 5)", "-1"),
        ("log(8, 2)", "3"),
        ("log(1000)", "3"),
        ("ln(e)", "1"),
        ("floor(-1.5) + ceil(1.2)", "0"),
        ("sin(pi/2)", "1"),
        ("cos(0)", "1"),
        ("sin(pi)", "0"),
        ("2 \u00d7 3 \u00f7 4 \u2212 1", "0.5"),
        ("2^100", "1267650600228229401496703205376"),
        ("--5", "5"),
        ("0^0", "1"),
        ("9^999", None),
    ],
)
def test_values(expression: str, value: str | None) -> None:
    if value is None:
        assert evaluate(expression).startswith("1.94") or "E+" in evaluate(expression)
    else:
        assert evaluate(expression) == value


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("", "empty"),
        ("1+", "too early"),
        ("1 2", "unexpected '2'"),
        ("(1", "expected '\\)' at the end"),
        ("1)", "unexpected"),
        ("1/0", "division by zero"),
        ("1//0", "division by zero"),
        ("1%0", "division by zero"),
        ("0^-1", "division by zero"),
        ("9^9^9", "too large"),
        ("10^99999", "too large"),
        ("1e99999", "too large"),
        ("exp(99999)", "too large"),
        ("1001!", "factorial"),
        ("2.5!", "factorial"),
        ("(-3)!", "factorial"),
        ("sqrt(-1)", "doesn't have a value"),
        ("ln(0-1)", "doesn't have a value"),
        ("round(1, 1000)", "digits"),
        ("sqrt(1, 2)", "requires 1 to 1"),
        ("__import__('os')", "unexpected|unknown"),
        ("open(1)", "unknown name 'open'"),
        ("x + 1", "unknown name 'x'"),
        ("1,000", "unexpected ','"),
        ("1; 2", "unexpected ';'"),
        ("(" * 60 + "1" + ")" * 60, "nested"),
        ("-" * 100 + "1", "nested"),
        ("1+" * 600 + "1", "longer than"),
    ],
)
def test_problems_are_named(expression: str, problem: str) -> None:
    with pytest.raises(ExpressionError, match=problem):
        evaluate(expression)


def test_hostile_expressions_end_soon() -> None:
    """Each is the worst of its kind; together they would hang an unbounded evaluator."""
    for expression in (
        "9^" * 400 + "9",
        "exp(" * 40 + "1" + ")" * 40,
        "1000!*" * 100 + "1",
        "sin(1e9000)",
        "tan(9e99)",
    ):
        try:
            evaluate(expression)
        except ExpressionError:
            continue


def test_a_result_is_given_as_it_can_be_stored() -> None:
    assert cut_result("a\x00b") == "a\N{REPLACEMENT CHARACTER}b"
    assert cut_result("\ud83d\ude00\ud83d") == "😀�"
    assert cut_result("abc", 2) == "ab\n[truncated: 3 characters in total]"


def test_a_result_that_was_cut_before_says_so() -> None:
    assert cut_result("abc", cut=True) == "abc\n[truncated: more than 3 characters in total]"
    assert cut_result("abc", 2, cut=True) == "ab\n[truncated: more than 3 characters in total]"
