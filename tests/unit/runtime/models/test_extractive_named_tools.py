"""The built-in model calls tools that a question names."""

from typing import Any

import pytest

from services.runtime.adapters.models.extractive.tool_rules import wanted_calls
from services.runtime.adapters.tools.calculator import Calculator
from services.runtime.domain.tools import ToolDefinition


def tool(name: str, required: tuple[str, ...] = (), **properties: str) -> ToolDefinition:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {each: {"type": kind} for each, kind in properties.items()},
        "required": list(required),
    }
    return ToolDefinition(name, "", schema, safe_to_repeat=True)


SEATS = tool("seat_count", ("crossing",), crossing="integer")
TICKETS = tool("office.find_ticket", ("code",), code="string", passenger_name="string", weight="number")
CALCULATOR = Calculator.definition


@pytest.mark.parametrize(
    ("question", "calls"),
    [
        ("What is the seat count of crossing 4711?", [("seat_count", {"crossing": 4711})]),
        ("Seat Count, crossing: 7", [("seat_count", {"crossing": 7})]),
        ("call seat_count with crossing number 12", [("seat_count", {"crossing": 12})]),
        ("What is the seat count?", []),
        ("How many seats has crossing 4711?", []),
        ("What is 3 * 245, and the seat count of crossing 7?",
         [("calculator", {"expression": "3 * 245"}), ("seat_count", {"crossing": 7})]),
        ("Please find ticket code SK-99/a.", [("office.find_ticket", {"code": "SK-99/a"})]),
        ("office.find_ticket code is “SK 99”", [("office.find_ticket", {"code": "SK 99"})]),
        ("Find ticket with code SK-1 of weight 2.5", [("office.find_ticket", {"code": "SK-1", "weight": 2.5})]),
        ("I lost my ticket, code SK-1", []),
        ("offices.find_tickets code SK-1", []),
    ],
)  # fmt: skip
def test_a_question_that_names_a_tool_calls_it(question: str, calls: list[tuple[str, Any]]) -> None:
    assert wanted_calls(question, (CALCULATOR, SEATS, TICKETS)) == calls


def test_a_tool_without_parameters_is_called_by_its_name() -> None:
    assert wanted_calls("Now open the gate!", (tool("open_the_gate"),)) == [("open_the_gate", {})]


def test_a_schema_that_says_little_is_no_problem() -> None:
    odd = ToolDefinition(
        "do_it", "", {"type": "object", "properties": {"x": True, "": {"type": "string"}}}, safe_to_repeat=True
    )
    assert wanted_calls("do it", (odd,)) == [("do_it", {})]
