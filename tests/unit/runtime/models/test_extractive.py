"""The built-in model, which answers from what it was given."""

from __future__ import annotations

import json
from typing import Any

import pytest

from libs.contracts.resources.artifacts import Sheet
from libs.contracts.resources.turns import ModelSettings
from services.runtime.adapters.models.extractive.model import ExtractiveModel, split_question
from services.runtime.adapters.models.extractive.sentences import sentences
from services.runtime.adapters.models.extractive.tables import tables_in, wanted_query
from services.runtime.adapters.models.extractive.tool_rules import wanted_calls
from services.runtime.adapters.tools.artifacts.artifact_create import ArtifactCreate
from services.runtime.adapters.tools.builtin import builtin_tools
from services.runtime.adapters.tools.calculator import Calculator
from services.runtime.adapters.tools.current_time import CurrentTime
from services.runtime.adapters.tools.knowledge_search import KnowledgeSearch
from services.runtime.domain.conversation import (
    ArtifactPart,
    AssistantMessage,
    Citation,
    ImagePart,
    JsonObject,
    Message,
    ModelAnswer,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from services.runtime.domain.models import ModelRequest, VisionNotSupported
from services.runtime.domain.tables import described
from services.runtime.domain.tools import ToolDefinition
from tests.support.agent_fakes import FakeRetriever, said
from tests.support.artifact_fakes import FakeArtifacts

DOCUMENT = """# The Lighthouse at Punta Verde

The lighthouse at Punta Verde was built between 1868 and 1871 by the engineer Elena Marchetti, after the wreck of
the brig Santa Clara. It stands 38 metres above the sea. The tower is of white limestone from the island itself.

## The lamp

The first lamp burned olive oil. In 1902 it was replaced by a paraffin lamp, and in 1954 by electricity. The light
can be seen from 24 nautical miles away in clear weather.

## The keepers

Three keepers lived there with their families until 1987. The last keeper, Tomas Rey, kept a diary of the weather.
The station was automated because keepers had become too expensive.

## Visiting

- The tower opens to visitors on weekends from April to October.
- Tickets cost 4 euros, and children under six enter free.
- Dogs are not allowed.
"""
TOOLS = (Calculator.definition, CurrentTime.definition, KnowledgeSearch(FakeRetriever()).definition)
NOTE = "built-in extractive model"


async def ask(*messages: Message, system: str = "", **more: object) -> ModelAnswer:
    request = ModelRequest("builtin:extractive", system, messages, **more)  # type: ignore[arg-type]
    return await ExtractiveModel().answer(request)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Who built the lighthouse?", "Elena Marchetti"),
        ("When did the lamp become electric, by what year?", "1954"),
        ("How tall is it?", "38 metres"),
        ("How far away can the light be seen?", "24 nautical miles"),
        ("Why was the station automated?", "too expensive"),
        ("How much does a ticket cost?", "4 euros"),
        ("Can I bring my dog?", "Dogs are not allowed"),
        ("Who was the last keeper?", "Tomas Rey"),
        ("What did the first lamp burn?", "olive oil"),
    ],
)
async def test_it_answers_over_a_document_wherever_it_was_pasted(question: str, expected: str) -> None:
    for answer in (
        await ask(said(f"Here is a text.\n\n{DOCUMENT}"), AssistantMessage("Thank you."), said(question)),
        await ask(said(f"{DOCUMENT}\n\n{question}")),
        await ask(said(f"{question}\n\n{DOCUMENT}")),
        await ask(said(question), system=f"You are a guide.\n\n{DOCUMENT}"),
    ):
        assert expected in answer.text.partition("[1]")[0]
        assert NOTE in answer.text
        assert expected in answer.citations[0].passage


async def test_a_summary_quotes_the_beginnings_of_parts() -> None:
    answer = await ask(said(DOCUMENT), AssistantMessage("ok"), said("Please summarise it."))
    for part in ("Elena Marchetti", "olive oil", "Three keepers", "opens to visitors"):
        assert part in answer.text


async def test_it_says_so_when_nothing_answers() -> None:
    answer = await ask(said(DOCUMENT), AssistantMessage("ok"), said("What is the capital of France?"))
    assert answer.text.startswith("I couldn't find an answer")
    assert answer.citations == ()
    empty = await ask(said("What is the capital of France?"))
    assert "none of it answers your question" in empty.text


async def test_it_remembers_earlier_messages() -> None:
    answer = await ask(said("My name is Ana and I live in Vigo."), AssistantMessage("Hi."), said("What is my name?"))
    assert "My name is Ana" in answer.text


async def test_it_quotes_passages_and_cites_their_sources() -> None:
    chunks = (
        Citation("Harbour fees are paid monthly.", file_name="fees.md", knowledge_base_id="kb"),
        Citation("The crane lifts 40 tonnes. It was painted red.", file_name="crane.md", page=2),
    )
    answer = await ask(said("How much does the crane lift?"), chunks=chunks)
    assert answer.text.startswith("The crane lifts 40 tonnes. [1]")
    assert "[1] crane.md" in answer.text
    assert answer.citations == (chunks[1],)


async def test_it_quotes_results_of_knowledge_search() -> None:
    passage = Citation("The crane lifts 40 tonnes.", file_name="crane.md")
    call = ToolCall("c1", "knowledge_search", {"query": "crane"})
    result = ToolResult("c1", "knowledge_search", "[1] The crane lifts 40 tonnes.", citations=(passage,))
    answer = await ask(
        said("What does the crane lift?"), AssistantMessage("", (call,)), ToolMessage(result), tools=TOOLS
    )
    assert answer.text.startswith("The crane lifts 40 tonnes. [1]")
    assert answer.citations == (passage,)


@pytest.mark.parametrize(
    ("question", "calls"),
    [
        ("What is 12.5% of 80?", [("calculator", {"expression": "12.5% * 80"})]),
        ("Calculate (3 + 4) * 1,200 / 7 please", [("calculator", {"expression": "(3 + 4) * 1200 / 7"})]),
        ("What is (12 + 8) x 3?", [("calculator", {"expression": "(12 + 8)*3"})]),
        ("how much is 19 times 23", [("calculator", {"expression": "19 * 23"})]),
        ("What is the square root of 144 plus 2?", [("calculator", {"expression": "sqrt(144) + 2"})]),
        ("2^10", [("calculator", {"expression": "2^10"})]),
        ("What time is it in Tokyo?", [("current_time", {"timezone": "Asia/Tokyo"})]),
        ("What is the time in America/New_York?", [("current_time", {"timezone": "America/New_York"})]),
        ("What is the date today?", [("current_time", {})]),
        (
            "What time is it in New York and what is 17*3?",
            [("calculator", {"expression": "17*3"}), ("current_time", {"timezone": "America/New_York"})],
        ),
        ("Who built the lighthouse?", [("knowledge_search", {"query": "Who built the lighthouse?"})]),
        ("When was it built, 1868 or 1871?", [("knowledge_search", {"query": "When was it built, 1868 or 1871?"})]),
        ("Was it 10-20 on 2024-11-21?", [("knowledge_search", {"query": "Was it 10-20 on 2024-11-21?"})]),
        ("How long is the 3-day trip?", [("knowledge_search", {"query": "How long is the 3-day trip?"})]),
    ],
)  # fmt: skip
async def test_it_calls_tools_by_rule(question: str, calls: list[tuple[str, dict[str, str]]]) -> None:
    answer = await ask(said(question), tools=TOOLS)
    assert [(call.name, call.arguments) for call in answer.tool_calls] == calls


async def test_tools_that_are_not_offered_are_not_called() -> None:
    assert (await ask(said("What is 2+2?"))).tool_calls == ()
    assert (await ask(said("What is 2+2?"), tools=TOOLS, answer_in_text=True)).tool_calls == ()


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (ToolResult("c1", "calculator", "6*7 = 42"), "6*7 = 42\n\n("),
        (ToolResult("c1", "calculator", "division by zero", "failed"), "calculator failed: division by zero"),
        (ToolResult("c1", "calculator", "interrupted", "unknown"), "It's unknown whether calculator"),
    ],
)
async def test_it_reports_results_of_tools(result: ToolResult, expected: str) -> None:
    call = ToolCall("c1", "calculator", {"expression": "6*7"})
    answer = await ask(said("6*7?"), AssistantMessage("", (call,)), ToolMessage(result), tools=TOOLS)
    assert answer.text.startswith(expected)
    assert answer.tool_calls == ()


async def test_it_cannot_see() -> None:
    with pytest.raises(VisionNotSupported):
        await ask(UserMessage((ImagePart("https://example.com/a.png"),)))


async def test_the_same_request_has_the_same_answer_streamed_or_not() -> None:
    request = ModelRequest("builtin:extractive", "", (said(f"{DOCUMENT}\n\nWho built it?"),))
    pieces: list[str] = []
    streamed = await ExtractiveModel(delay=0.01).answer(request, pieces.append)
    assert streamed == await ExtractiveModel().answer(request)
    assert "".join(pieces) == streamed.text
    assert len(pieces) > 10


def test_a_document_alone_has_no_question() -> None:
    assert split_question(DOCUMENT) == (DOCUMENT, "")


def test_rows_of_tables_are_sentences_of_their_own() -> None:
    table = "| Dish | Price |\n| --- | --- |\n| Soup | 98 |\n| Waffle | 64 |"
    assert [sentence.text for sentence in sentences(table)] == ["| Dish | Price |", "| Soup | 98 |", "| Waffle | 64 |"]
    sheet = "month: May, crossings: 434, cancelled: 4\nmonth: June, crossings: 420, cancelled: 2"
    assert [sentence.text for sentence in sentences(sheet)] == sheet.splitlines()
    assert len(sentences("A line that goes on\nin the next: here, there and\neverywhere.")) == 1


async def test_it_stops_where_it_is_told_to_and_makes_one_call_at_a_time() -> None:
    whole = (await ask(said(f"{DOCUMENT}\n\nWhat does a ticket cost?"))).text
    word = whole.split()[3]
    stopped = await ask(
        said(f"{DOCUMENT}\n\nWhat does a ticket cost?"), settings=ModelSettings(stop=["never said", word])
    )
    assert stopped.text == whole[: whole.index(word)]
    both = "What is 2+2 and what time is it now in UTC?"
    tools = (Calculator.definition, CurrentTime.definition)
    assert len((await ask(said(both), tools=tools)).tool_calls) == 2
    assert len((await ask(said(both), tools=tools, settings=ModelSettings(parallel_tool_calls=False))).tool_calls) == 1


OUTPUT = {
    "type": "object",
    "properties": {
        "price": {"type": "number", "description": "what a ticket costs"},
        "answer": {"type": "string", "maxLength": 200},
        "quotes": {"type": "array", "items": {"type": "string"}},
        "free": {"type": ["boolean", "null"]},
        "currency": {"$ref": "#/$defs/currency"},
    },
    "required": ["price", "answer"],
    "$defs": {"currency": {"enum": ["dollars", "euros"]}},
}


async def test_it_answers_as_data_when_the_schema_is_simple() -> None:
    answer = await ask(
        said(f"{DOCUMENT}\n\nHow much does a ticket cost?"), settings=ModelSettings(output_schema=OUTPUT)
    )
    output = json.loads(answer.text)
    assert (output["price"], output["currency"], output["free"]) == (4, "euros", True)
    assert output["answer"] in output["quotes"]
    assert any("4 euros" in quote for quote in output["quotes"])
    assert NOTE not in answer.text
    assert answer.citations != ()


async def test_it_calculates_as_data() -> None:
    call = ToolCall("c1", "calculator", {"expression": "2 * 84"})
    result = ToolResult("c1", "calculator", "2 * 84 = 168")
    schema = {"type": "object", "properties": {"result": {"type": "integer"}}, "required": ["result"]}
    asked = (said("What is 2 * 84?"), AssistantMessage("", (call,)), ToolMessage(result))
    assert json.loads((await ask(*asked, tools=TOOLS, settings=ModelSettings(output_schema=schema))).text) == {
        "result": 168
    }


async def test_it_invents_nothing_for_a_schema() -> None:
    schema = {"type": "object", "properties": {"height": {"type": "number"}, "kind": {"enum": ["x-ray"]}}}
    assert json.loads((await ask(said("Hello"), settings=ModelSettings(output_schema=schema))).text) == {}
    assert NOTE in (await ask(said("Hello"), settings=ModelSettings(output_schema={"type": "number"}))).text


SHEET = ArtifactPart("0198-24-17", "tickets.xlsx", "application/x", "structural_parsing")
MINUTES = ArtifactPart("0198-24-18", "minutes.docx", "application/x", "rag_indexing")
TABLES = (
    Sheet(name="Tickets 2025", headers=["month", "route", "passengers", "net income (crowns)"],
          types=["text", "text", "integer", "number"], rows=[["January", "Skarholm", 1, 2.5]], row_count=36),
    Sheet(name="Routes", headers=["route", "minutes"], types=["text", "integer"], rows=[], row_count=3),
)  # fmt: skip
DESCRIBED = f"[file tickets.xlsx, artifact {SHEET.artifact_id}]\n{described(TABLES)}"
TOLD = "[file minutes.docx]\n\nThe meeting was opened by Ingrid Moe. Solveig Haugen was elected chair of the board.\n"
FILE_TOOLS = tuple(
    tool.definition for tool in builtin_tools(artifacts=FakeArtifacts()).values() if tool.definition.name != "http_get"
)


def asked(question: str, *files: TextPart) -> UserMessage:
    return UserMessage((TextPart(question), *files))


async def answer(*messages: Message, tools: bool = True) -> ModelAnswer:
    request = ModelRequest("builtin:extractive", "", messages, tools=FILE_TOOLS if tools else ())
    return await ExtractiveModel().answer(request)


def sql(question: str) -> str | None:
    query = wanted_query(question, tables_in(DESCRIBED, SHEET))
    assert query is None or query["artifact"] == SHEET.artifact_id
    return None if query is None else query["sql"]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("How many passengers were there?",
         'SELECT round(sum("passengers"), 2) AS "total passengers" FROM tickets_2025'),
        ("What was the average number of passengers?",
         'SELECT round(avg("passengers"), 2) AS "average passengers" FROM tickets_2025'),
        ("What was the net income per month?",
         'SELECT "month", round(sum("net income (crowns)"), 2) AS "total net income (crowns)" FROM tickets_2025'
         " GROUP BY ALL ORDER BY min(rowid)"),
        ("Which route had the fewest passengers in July?",
         'SELECT "route", round(sum("passengers"), 2) AS "total passengers" FROM tickets_2025'
         " WHERE concat_ws(' ', \"month\", \"route\") ILIKE '%July%' GROUP BY ALL ORDER BY 2 LIMIT 1"),
        ("How many passengers went to “x'y”?",
         'SELECT round(sum("passengers"), 2) AS "total passengers" FROM tickets_2025'
         " WHERE concat_ws(' ', \"month\", \"route\") ILIKE '%x''y%'"),
        ("How many rows are there?", "SELECT count(*) AS rows FROM tickets_2025"),
        ("How many minutes does it take?", 'SELECT round(sum("minutes"), 2) AS "total minutes" FROM routes'),
        ("Who was elected chair?", None),
    ],
)  # fmt: skip
def test_questions_about_columns_become_sql(question: str, expected: str | None) -> None:
    assert sql(question) == expected


async def test_a_question_about_a_table_is_a_query_and_its_answer_is_told() -> None:
    question = asked("How many passengers were there in July?", TextPart(DESCRIBED, SHEET))
    [call] = (await answer(question)).tool_calls
    assert (call.name, call.arguments["artifact"]) == ("table_query", SHEET.artifact_id)
    result = ToolMessage(ToolResult(call.id, "table_query", "total passengers\n31204\n(1 row)"))
    final = await answer(question, AssistantMessage("", (call,)), result)
    assert final.text.startswith("total passengers: 31204")
    assert final.tool_calls == ()


async def test_numbers_in_ids_of_files_are_no_arithmetic() -> None:
    question = asked("What about the chair?", TextPart(TOLD, MINUTES), TextPart(DESCRIBED, SHEET))
    assert (await answer(question)).tool_calls == ()


async def test_a_document_is_quoted_and_cited_by_its_name() -> None:
    final = await answer(asked("Who was elected chair of the board?", TextPart(TOLD, MINUTES)))
    assert final.text.startswith("Solveig Haugen was elected chair of the board. [1]")
    assert "[1] minutes.docx" in final.text
    [citation] = final.citations
    assert (citation.artifact_id, citation.file_name) == (MINUTES.artifact_id, "minutes.docx")
    later = await answer(
        asked("Look.", TextPart(TOLD, MINUTES)), AssistantMessage("Yes."), said("Who opened the meeting?")
    )
    assert "Ingrid Moe" in later.text


async def test_a_session_whose_files_are_not_shown_is_searched() -> None:
    calls = (await answer(said("What about dogs?"))).tool_calls
    assert [(call.name, call.arguments) for call in calls] == [("artifact_search", {"query": "What about dogs?"})]


@pytest.mark.parametrize("name", ["out.xlsx", "out.csv", "out.html"])
async def test_findings_are_saved_under_the_requested_name(name: str) -> None:
    question = asked(f"What was the net income per month? Save it as {name}.", TextPart(DESCRIBED, SHEET))
    [query] = (await answer(question)).tool_calls
    table = "month | total net income (crowns)\nJuly | 12.5\nMay | 3\n(2 rows)"
    done: list[Message] = [
        AssistantMessage("", (query,)),
        ToolMessage(ToolResult(query.id, "table_query", table)),
    ]
    [make] = (await answer(question, *done)).tool_calls
    assert make.name == "artifact_create"
    artifacts = FakeArtifacts()
    made = await _make(artifacts, make.arguments)
    assert artifacts.generated()[0].facts.name == name
    if name.endswith(".xlsx"):
        assert make.arguments["sheets"][0]["rows"] == [
            ["month", "total net income (crowns)"], ["July", 12.5], ["May", 3],
        ]  # fmt: skip
    else:
        assert b"July" in artifacts.generated()[0].content
    done += [AssistantMessage("", (make,)), ToolMessage(ToolResult(make.id, "artifact_create", made))]
    final = await answer(question, *done)
    assert final.tool_calls == ()
    assert f"Created {name}" in final.text
    assert "July | 12.5" in final.text


async def test_quotes_are_saved_when_there_is_no_table() -> None:
    question = asked("Write who was elected chair of the board into chair.md", TextPart(TOLD, MINUTES))
    [make] = (await answer(question)).tool_calls
    assert "Solveig Haugen" in make.arguments["content"]
    failed = ToolMessage(ToolResult(make.id, "artifact_create", "too large", "failed"))
    assert (await answer(question, AssistantMessage("", (make,)), failed)).tool_calls == ()


async def _make(artifacts: FakeArtifacts, arguments: JsonObject) -> str:
    from services.runtime.domain.tools import ToolContext
    from tests.support.agent_fakes import CALLER

    return (await ArtifactCreate(artifacts).call(arguments, ToolContext("c", "t", "session", CALLER))).text


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
