"""The built-in model and files: documents quoted, tables asked by SQL, files made."""

from __future__ import annotations

import pytest

from libs.contracts.resources.artifacts import Sheet
from services.runtime.adapters.models.extractive.model import ExtractiveModel
from services.runtime.adapters.models.extractive.tables import tables_in, wanted_query
from services.runtime.adapters.tools.artifacts.artifact_create import ArtifactCreate
from services.runtime.adapters.tools.artifacts.artifact_reading import ArtifactSearch
from services.runtime.adapters.tools.artifacts.table_query import TableQuery
from services.runtime.adapters.tools.builtin import builtin_tools
from services.runtime.domain.conversation import (
    ArtifactPart,
    AssistantMessage,
    JsonObject,
    Message,
    ModelAnswer,
    TextPart,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from services.runtime.domain.models import ModelRequest
from services.runtime.domain.tables import described
from tests.support.agent_fakes import said
from tests.support.artifact_fakes import FakeArtifacts

SHEET = ArtifactPart("0198-24-17", "tickets.xlsx", "application/x", "structural_parsing")
NOTE = ArtifactPart("0198-24-18", "minutes.docx", "application/x", "rag_indexing")
TABLES = (
    Sheet(name="Tickets 2025", headers=["month", "route", "passengers", "net income (crowns)"],
          types=["text", "text", "integer", "number"], rows=[["January", "Skarholm", 1, 2.5]], row_count=36),
    Sheet(name="Routes", headers=["route", "minutes"], types=["text", "integer"], rows=[], row_count=3),
)  # fmt: skip
DESCRIBED = f"[file tickets.xlsx, artifact {SHEET.artifact_id}]\n{described(TABLES)}"
TOLD = "[file minutes.docx]\n\nThe meeting was opened by Ingrid Moe. Solveig Haugen was elected chair of the board.\n"
TOOLS = tuple(
    tool.definition for tool in builtin_tools(artifacts=FakeArtifacts()).values() if tool.definition.name != "http_get"
)


def asked(question: str, *files: TextPart) -> UserMessage:
    return UserMessage((TextPart(question), *files))


async def answer(*messages: Message, tools: bool = True) -> ModelAnswer:
    request = ModelRequest("builtin:extractive", "", messages, tools=TOOLS if tools else ())
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
    question = asked("What about the chair?", TextPart(TOLD, NOTE), TextPart(DESCRIBED, SHEET))
    assert (await answer(question)).tool_calls == ()


async def test_a_document_is_quoted_and_cited_by_its_name() -> None:
    final = await answer(asked("Who was elected chair of the board?", TextPart(TOLD, NOTE)))
    assert final.text.startswith("Solveig Haugen was elected chair of the board. [1]")
    assert "[1] minutes.docx" in final.text
    [citation] = final.citations
    assert (citation.artifact_id, citation.file_name) == (NOTE.artifact_id, "minutes.docx")
    later = await answer(
        asked("Look.", TextPart(TOLD, NOTE)), AssistantMessage("Yes."), said("Who opened the meeting?")
    )
    assert "Ingrid Moe" in later.text


async def test_a_session_whose_files_are_not_shown_is_searched() -> None:
    calls = (await answer(said("What about dogs?"))).tool_calls
    assert [(call.name, call.arguments) for call in calls] == [("artifact_search", {"query": "What about dogs?"})]


@pytest.mark.parametrize("name", ["out.xlsx", "out.csv", "out.md", "out.html", "out.json", "out.txt"])
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
    question = asked("Write who was elected chair of the board into chair.md", TextPart(TOLD, NOTE))
    [make] = (await answer(question)).tool_calls
    assert "Solveig Haugen" in make.arguments["content"]
    failed = ToolMessage(ToolResult(make.id, "artifact_create", "too large", "failed"))
    assert (await answer(question, AssistantMessage("", (make,)), failed)).tool_calls == ()


async def test_without_tools_nothing_is_called() -> None:
    question = asked("What was the income? Save it as a.xlsx.", TextPart(DESCRIBED, SHEET))
    assert (await answer(question, tools=False)).tool_calls == ()


def test_its_tools_are_offered_to_agents() -> None:
    names = {tool.name for tool in TOOLS}
    assert {each.definition.name for each in (TableQuery, ArtifactSearch, ArtifactCreate)} <= names


async def _make(artifacts: FakeArtifacts, arguments: JsonObject) -> str:
    from services.runtime.domain.tools import ToolContext
    from tests.support.agent_fakes import CALLER

    return (await ArtifactCreate(artifacts).call(arguments, ToolContext("c", "t", "session", CALLER))).text
