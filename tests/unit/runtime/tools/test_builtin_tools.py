"""Built-in tools, expressions of the calculator, and results that are cut."""

import re
from datetime import UTC, datetime

import jsonschema_rs
import pytest

from services.runtime.adapters.tools.builtin import builtin_tools
from services.runtime.adapters.tools.calculator import Calculator, ExpressionError, evaluate
from services.runtime.adapters.tools.current_time import CurrentTime
from services.runtime.adapters.tools.knowledge_search import KnowledgeSearch
from services.runtime.domain.conversation import Citation
from services.runtime.domain.knowledge import KnowledgeBaseRef
from services.runtime.domain.tools import ToolContext, ToolFailed, cut_result
from tests.support.agent_fakes import CALLER, FakeRetriever

CONTEXT = ToolContext("call", "turn", "session", CALLER, (KnowledgeBaseRef("kb"),))
MOMENT = datetime(2026, 11, 21, 23, 30, tzinfo=UTC)


async def test_calculator() -> None:
    assert (await Calculator().call({"expression": " 6*7 "}, CONTEXT)).text == "6*7 = 42"
    with pytest.raises(ToolFailed, match="can't compute '1/0': division by zero"):
        await Calculator().call({"expression": "1/0"}, CONTEXT)


async def test_current_time() -> None:
    asked: dict[str | None, str] = {
        None: "Saturday, 2026-11-21 23:30:00 UTC (UTC+00:00)",
        "Europe/Madrid": "Sunday, 2026-11-22 00:30:00 Europe/Madrid (UTC+01:00)",
        "Asia/Kolkata": "Sunday, 2026-11-22 05:00:00 Asia/Kolkata (UTC+05:30)",
    }
    for zone, text in asked.items():
        arguments = {} if zone is None else {"timezone": zone}
        assert (await CurrentTime(lambda: MOMENT).call(arguments, CONTEXT)).text == text
    for unknown in ("Mars/Olympus", "../../etc/passwd", "/etc/localtime", "Europe", "a\0b"):
        with pytest.raises(ToolFailed, match="unknown time zone"):
            await CurrentTime().call({"timezone": unknown}, CONTEXT)


async def test_knowledge_search() -> None:
    passage = Citation("The tower is white.", file_name="tower.md", page=2)
    retriever = FakeRetriever(passage, warnings=("base x is gone",))
    output = await KnowledgeSearch(retriever).call({"query": "tower"}, CONTEXT)
    assert output.text == "Warning: base x is gone\n\n[1] (tower.md, page 2) The tower is white."
    assert output.citations == (passage,)
    assert retriever.queries == [("tower", ("kb",), CALLER)]
    nothing = await KnowledgeSearch(FakeRetriever()).call({"query": "tower"}, CONTEXT)
    assert nothing.text == "No passage matches this query."


def test_every_built_in_tool_is_safe_and_has_a_valid_schema() -> None:
    toolbox = builtin_tools(retriever=FakeRetriever())
    assert list(toolbox) == ["calculator", "current_time", "http_get", "knowledge_search"]
    for entry in toolbox.to_json():
        assert entry["safe_to_repeat"] is True
        jsonschema_rs.meta.validate(entry["parameters"])
    assert "knowledge_search" not in builtin_tools(), "there is nothing to search"


VALUES = {
    "1+2*3": "7", "(1+2)*3": "9", "0.1+0.2": "0.3", "10/4": "2.5", "1/3": "0.3333333333333333333333333333",
    "2^3^2": "512", "-2^2": "-4", "(-2)**2": "4", "2^-2": "0.25", "7//2": "3", "-7//2": "-4", "7%3": "1",
    "-7 mod 3": "2", "20%": "0.2", "12.5% * 80": "10", "200 - 10%": "199.9", "5!": "120", "2^3!": "64",
    "1e3*2": "2000", ".5 + 5.": "5.5", "sqrt(2)": "1.414213562373095048801688724", "sqrt(144)+abs(-3)": "15",
    "round(2.345, 2)": "2.35", "round(2.5)": "3", "max(1, 2, 3) - min(4, 5)": "-1", "log(8, 2)": "3",
    "log(1000)": "3", "ln(e)": "1", "floor(-1.5) + ceil(1.2)": "0", "sin(pi/2)": "1", "cos(0)": "1", "sin(pi)": "0",
    "2 \u00d7 3 \u00f7 4 \u2212 1": "0.5", "2^100": "1267650600228229401496703205376", "--5": "5", "0^0": "1",
}  # fmt: skip
PROBLEMS = {
    "empty": [""],
    "is incomplete": ["1+"],
    "unexpected '2'": ["1 2"],
    "expected ')' at the end": ["(1"],
    "unexpected ')'": ["1)"],
    'unexpected "\'"': ["__import__('os')"],
    "division by zero": ["1/0", "1//0", "1%0", "0^-1"],
    "too large": ["9^9^9", "10^99999", "1e99999", "exp(99999)"],
    "factorial": ["1001!", "2.5!", "(-3)!"],
    "the result is undefined": ["sqrt(-1)", "ln(0-1)"],
    "digits": ["round(1, 1000)"],
    "wrong number of values": ["sqrt(1, 2)"],
    "unknown name 'open'": ["open(1)"],
    "unknown name 'x'": ["x + 1"],
    "unexpected ','": ["1,000"],
    "unexpected ';'": ["1; 2"],
    "nested": ["(" * 60 + "1" + ")" * 60, "-" * 100 + "1"],
    "longer than": ["1+" * 600 + "1"],
}


def test_values() -> None:
    assert {expression: evaluate(expression) for expression in VALUES} == VALUES
    assert "E+" in evaluate("9^999")


def test_problems_are_named() -> None:
    for problem, expressions in PROBLEMS.items():
        for expression in expressions:
            with pytest.raises(ExpressionError, match=re.escape(problem)):
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
    assert cut_result("abc", cut=True) == "abc\n[truncated: more than 3 characters in total]"
    assert cut_result("abc", 2, cut=True) == "ab\n[truncated: more than 3 characters in total]"
