"""The built-in model, which answers from what it was given."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from libs.contracts.resources.artifacts import Sheet
from libs.contracts.resources.turns import ModelSettings
from services.runtime.adapters.models.extractive.model import ExtractiveModel
from services.runtime.adapters.models.extractive.sentences import sentences
from services.runtime.adapters.tools.artifacts.artifact_create import ArtifactCreate
from services.runtime.adapters.tools.builtin import builtin_tools
from services.runtime.adapters.tools.calculator import Calculator
from services.runtime.adapters.tools.current_time import CurrentTime
from services.runtime.adapters.tools.knowledge_search import KnowledgeSearch
from services.runtime.domain.conversation import (
    ArtifactPart,
    AssistantMessage,
    Citation,
    JsonObject,
    Message,
    ModelAnswer,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from services.runtime.domain.models import ModelRequest
from services.runtime.domain.tables import described
from services.runtime.domain.tools import ToolContext, ToolDefinition
from tests.support.agent_fakes import CALLER, FakeRetriever, said
from tests.support.artifact_fakes import FakeArtifacts

LIGHTHOUSE = """# The Lighthouse at Punta Verde

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


async def ask(*messages: Message | str, system: str = "", **more: object) -> ModelAnswer:
    given = tuple(said(each) if isinstance(each, str) else each for each in messages)
    request = ModelRequest("builtin:extractive", system, given, **more)  # type: ignore[arg-type]
    return await ExtractiveModel().answer(request)


def called(name: str, output: str, *, arguments: JsonObject | None = None, **result: Any) -> tuple[Message, Message]:
    call = ToolCall("c1", name, arguments or {})
    return AssistantMessage("", (call,)), ToolMessage(ToolResult("c1", name, output, **result))


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
        await ask(f"Here is a text.\n\n{LIGHTHOUSE}", AssistantMessage("Thank you."), question),
        await ask(f"{LIGHTHOUSE}\n\n{question}"),
        await ask(f"{question}\n\n{LIGHTHOUSE}"),
        await ask(question, system=f"You are a guide.\n\n{LIGHTHOUSE}"),
    ):
        assert expected in answer.text.partition("[1]")[0]
        assert NOTE in answer.text
        assert expected in answer.citations[0].passage


async def test_it_summarizes_remembers_and_says_so_when_nothing_answers() -> None:
    for summary in (await ask(LIGHTHOUSE), await ask(LIGHTHOUSE, AssistantMessage("ok"), "Please summarise it.")):
        for part in ("Elena Marchetti", "olive oil", "Three keepers", "opens to visitors"):
            assert part in summary.text
    remembered = await ask("My name is Ana and I live in Vigo.", AssistantMessage("Hi."), "What is my name?")
    assert "My name is Ana" in remembered.text
    nothing = await ask(LIGHTHOUSE, AssistantMessage("ok"), "What is the capital of France?")
    assert nothing.text.startswith("I couldn't find an answer")
    assert nothing.citations == ()
    assert "none of it answers your question" in (await ask("What is the capital of France?")).text


async def test_it_quotes_passages_and_cites_their_sources() -> None:
    fees = Citation("Harbour fees are paid monthly.", file_name="fees.md", knowledge_base_id="kb")
    crane = Citation("The crane lifts 40 tonnes. It was painted red.", file_name="crane.md", page=2)
    given = await ask("How much does the crane lift?", chunks=(fees, crane))
    assert "[1] crane.md" in given.text
    found = called("knowledge_search", "[1] The crane lifts 40 tonnes.", citations=(crane,))
    for answer in (given, await ask("What does the crane lift?", *found, tools=TOOLS)):
        assert answer.text.startswith("The crane lifts 40 tonnes. [1]")
        assert answer.citations == (crane,)


ARITHMETIC = {
    "What is 12.5% of 80?": "12.5% * 80",
    "Calculate (3 + 4) * 1,200 / 7 please": "(3 + 4) * 1200 / 7",
    "What is (12 + 8) x 3?": "(12 + 8)*3",
    "how much is 19 times 23": "19 * 23",
    "What is the square root of 144 plus 2?": "sqrt(144) + 2",
    "2^10": "2^10",
}
SEARCHES = (
    "Who built the lighthouse?", "When was it built, 1868 or 1871?", "Was it 10-20 on 2024-11-21?",
    "How long is the 3-day trip?",
)  # fmt: skip
NEW_YORK = ("current_time", {"timezone": "America/New_York"})
CALLS: dict[str, list[tuple[str, JsonObject]]] = {
    **{question: [("calculator", {"expression": expression})] for question, expression in ARITHMETIC.items()},
    **{question: [("knowledge_search", {"query": question})] for question in SEARCHES},
    "What time is it in Tokyo?": [("current_time", {"timezone": "Asia/Tokyo"})],
    "What is the time in America/New_York?": [NEW_YORK],
    "What is the date today?": [("current_time", {})],
    "What time is it in New York and what is 17*3?": [("calculator", {"expression": "17*3"}), NEW_YORK],
}


@pytest.mark.parametrize("question", CALLS)
async def test_it_calls_tools_by_rule(question: str) -> None:
    answer = await ask(question, tools=TOOLS)
    assert [(call.name, call.arguments) for call in answer.tool_calls] == CALLS[question]


async def test_tools_that_are_not_offered_are_not_called() -> None:
    assert (await ask("What is 2+2?")).tool_calls == ()
    assert (await ask("What is 2+2?", tools=TOOLS, answer_in_text=True)).tool_calls == ()


async def test_it_reports_results_of_tools() -> None:
    for output, status, expected in (
        ("6*7 = 42", "completed", "6*7 = 42\n\n("),
        ("division by zero", "failed", "calculator failed: division by zero"),
        ("interrupted", "unknown", "It's unknown whether calculator"),
    ):
        answer = await ask("6*7?", *called("calculator", output, status=status), tools=TOOLS)
        assert answer.text.startswith(expected)
        assert answer.tool_calls == ()


async def test_the_same_request_has_the_same_answer_streamed_or_not() -> None:
    request = ModelRequest("builtin:extractive", "", (said(f"{LIGHTHOUSE}\n\nWho built it?"),))
    pieces: list[str] = []
    streamed = await ExtractiveModel(delay=0.01).answer(request, pieces.append)
    assert streamed == await ExtractiveModel().answer(request)
    assert "".join(pieces) == streamed.text
    assert len(pieces) > 10


def test_rows_of_tables_are_sentences_of_their_own() -> None:
    table = "| Dish | Price |\n| --- | --- |\n| Soup | 98 |\n| Waffle | 64 |"
    assert [sentence.text for sentence in sentences(table)] == ["| Dish | Price |", "| Soup | 98 |", "| Waffle | 64 |"]
    sheet = "month: May, crossings: 434, cancelled: 4\nmonth: June, crossings: 420, cancelled: 2"
    assert [sentence.text for sentence in sentences(sheet)] == sheet.splitlines()
    assert len(sentences("A line that goes on\nin the next: here, there and\neverywhere.")) == 1


async def test_it_stops_where_it_is_told_to_and_makes_one_call_at_a_time() -> None:
    question = f"{LIGHTHOUSE}\n\nWhat does a ticket cost?"
    whole = (await ask(question)).text
    word = whole.split()[3]
    stopped = await ask(question, settings=ModelSettings(stop=["never said", word]))
    assert stopped.text == whole[: whole.index(word)]
    both = "What is 2+2 and what time is it now in UTC?"
    for parallel, count in ((True, 2), (False, 1)):
        answer = await ask(both, tools=TOOLS, settings=ModelSettings(parallel_tool_calls=parallel))
        assert len(answer.tool_calls) == count


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
    answer = await ask(f"{LIGHTHOUSE}\n\nHow much does a ticket cost?", settings=ModelSettings(output_schema=OUTPUT))
    output = json.loads(answer.text)
    assert (output["price"], output["currency"], output["free"]) == (4, "euros", True)
    assert output["answer"] in output["quotes"]
    assert any("4 euros" in quote for quote in output["quotes"])
    assert NOTE not in answer.text
    assert answer.citations != ()


async def test_it_calculates_as_data_and_invents_nothing_for_a_schema() -> None:
    schema = {"type": "object", "properties": {"result": {"type": "integer"}}, "required": ["result"]}
    calculated = called("calculator", "2 * 84 = 168", arguments={"expression": "2 * 84"})
    answer = await ask("What is 2 * 84?", *calculated, tools=TOOLS, settings=ModelSettings(output_schema=schema))
    assert json.loads(answer.text) == {"result": 168}
    schema = {"type": "object", "properties": {"height": {"type": "number"}, "kind": {"enum": ["x-ray"]}}}
    assert json.loads((await ask("Hello", settings=ModelSettings(output_schema=schema))).text) == {}
    assert NOTE in (await ask("Hello", settings=ModelSettings(output_schema={"type": "number"}))).text


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


async def answer(*messages: Message | str) -> ModelAnswer:
    return await ask(*messages, tools=FILE_TOOLS)


def total(what: str, table: str = "tickets_2025") -> str:
    return f'round(sum("{what}"), 2) AS "total {what}" FROM {table}'


def where(text: str) -> str:
    return f" WHERE concat_ws(' ', \"month\", \"route\") ILIKE '%{text}%'"


QUERIES = {
    "How many passengers were there?": total("passengers"),
    "What was the average number of passengers?":
        'round(avg("passengers"), 2) AS "average passengers" FROM tickets_2025',
    "What was the net income per month?":
        f'"month", {total("net income (crowns)")} GROUP BY ALL ORDER BY min(rowid)',
    "Which route had the fewest passengers in July?":
        f'"route", {total("passengers")}{where("July")} GROUP BY ALL ORDER BY 2 LIMIT 1',
    "How many passengers went to “x'y”?": total("passengers") + where("x''y"),
    "How many rows are there?": "count(*) AS rows FROM tickets_2025",
    "How many minutes does it take?": total("minutes", "routes"),
}  # fmt: skip


@pytest.mark.parametrize("question", QUERIES)
async def test_questions_about_columns_become_sql(question: str) -> None:
    [call] = (await answer(asked(question, TextPart(DESCRIBED, SHEET)))).tool_calls
    assert call.name == "table_query"
    assert call.arguments == {"artifact": SHEET.artifact_id, "sql": f"SELECT {QUERIES[question]}"}


async def test_a_question_about_a_table_is_a_query_and_its_answer_is_told() -> None:
    question = asked("How many passengers were there in July?", TextPart(DESCRIBED, SHEET))
    [call] = (await answer(question)).tool_calls
    result = ToolMessage(ToolResult(call.id, "table_query", "total passengers\n31204\n(1 row)"))
    final = await answer(question, AssistantMessage("", (call,)), result)
    assert final.text.startswith("total passengers: 31204")
    assert final.tool_calls == ()


async def test_numbers_in_ids_of_files_are_no_arithmetic_and_other_questions_no_query() -> None:
    for question in ("What about the chair?", "Who was elected chair?"):
        files = TextPart(TOLD, MINUTES), TextPart(DESCRIBED, SHEET)
        assert (await answer(asked(question, *files))).tool_calls == ()


async def test_a_document_is_quoted_and_cited_by_its_name() -> None:
    final = await answer(asked("Who was elected chair of the board?", TextPart(TOLD, MINUTES)))
    assert final.text.startswith("Solveig Haugen was elected chair of the board. [1]")
    assert "[1] minutes.docx" in final.text
    [citation] = final.citations
    assert (citation.artifact_id, citation.file_name) == (MINUTES.artifact_id, "minutes.docx")
    later = await answer(asked("Look.", TextPart(TOLD, MINUTES)), AssistantMessage("Yes."), "Who opened the meeting?")
    assert "Ingrid Moe" in later.text


async def test_a_session_whose_files_are_not_shown_is_searched() -> None:
    calls = (await answer("What about dogs?")).tool_calls
    assert [(call.name, call.arguments) for call in calls] == [("artifact_search", {"query": "What about dogs?"})]


@pytest.mark.parametrize("name", ["out.xlsx", "out.csv", "out.html"])
async def test_findings_are_saved_under_the_requested_name(name: str) -> None:
    question = asked(f"What was the net income per month? Save it as {name}.", TextPart(DESCRIBED, SHEET))
    [query] = (await answer(question)).tool_calls
    table = "month | total net income (crowns)\nJuly | 12.5\nMay | 3\n(2 rows)"
    done: list[Message] = [AssistantMessage("", (query,)), ToolMessage(ToolResult(query.id, "table_query", table))]
    [make] = (await answer(question, *done)).tool_calls
    assert make.name == "artifact_create"
    artifacts = FakeArtifacts()
    made = (await ArtifactCreate(artifacts).call(make.arguments, ToolContext("c", "t", "session", CALLER))).text
    assert artifacts.generated()[0].facts.name == name
    if name.endswith(".xlsx"):
        rows = make.arguments["sheets"][0]["rows"]
        assert rows == [["month", "total net income (crowns)"], ["July", 12.5], ["May", 3]]
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


def tool(name: str, required: tuple[str, ...] = (), **properties: str) -> ToolDefinition:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {each: {"type": kind} for each, kind in properties.items()},
        "required": list(required),
    }
    return ToolDefinition(name, "", schema, safe_to_repeat=True)


OWN_TOOLS = (
    Calculator.definition,
    tool("seat_count", ("crossing",), crossing="integer"),
    tool("office.find_ticket", ("code",), code="string", passenger_name="string", weight="number"),
    tool("open_the_gate"),
    replace(tool("do_it"), parameters={"type": "object", "properties": {"x": True, "": {"type": "string"}}}),
)
BY_NAME: dict[str, list[tuple[str, JsonObject]]] = {
    "What is the seat count of crossing 4711?": [("seat_count", {"crossing": 4711})],
    "Seat Count, crossing: 7": [("seat_count", {"crossing": 7})],
    "call seat_count with crossing number 12": [("seat_count", {"crossing": 12})],
    "What is the seat count?": [],
    "How many seats has crossing 4711?": [],
    "What is 3 * 245, and the seat count of crossing 7?":
        [("calculator", {"expression": "3 * 245"}), ("seat_count", {"crossing": 7})],
    "Please find ticket code SK-99/a.": [("office.find_ticket", {"code": "SK-99/a"})],
    "office.find_ticket code is “SK 99”": [("office.find_ticket", {"code": "SK 99"})],
    "Find ticket with code SK-1 of weight 2.5": [("office.find_ticket", {"code": "SK-1", "weight": 2.5})],
    "I lost my ticket, code SK-1": [],
    "offices.find_tickets code SK-1": [],
    "Now open the gate!": [("open_the_gate", {})],
    "do it": [("do_it", {})],
}  # fmt: skip


@pytest.mark.parametrize("question", BY_NAME)
async def test_a_question_that_names_a_tool_calls_it(question: str) -> None:
    calls = (await ask(question, tools=OWN_TOOLS)).tool_calls
    assert [(call.name, call.arguments) for call in calls] == BY_NAME[question]
