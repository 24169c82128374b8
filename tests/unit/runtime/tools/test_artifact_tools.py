"""Reading, searching and making files by tools."""

from __future__ import annotations

import csv
import io
from typing import Any

import jsonschema_rs
import pytest
from python_calamine import CalamineWorkbook

from libs.contracts.resources.artifacts import Sheet
from services.runtime.adapters.tools.artifacts.artifact_create import ArtifactCreate
from services.runtime.adapters.tools.artifacts.artifact_reading import ArtifactRead, ArtifactSearch
from services.runtime.domain.tools import Tool, ToolContext, ToolFailed, ToolOutput
from tests.support.agent_fakes import CALLER
from tests.support.artifact_fakes import FakeArtifacts

TABLE = Sheet(name="Sheet 1", headers=["a"], types=["integer"], rows=[[1], [2]], row_count=2)


@pytest.fixture
def artifacts() -> FakeArtifacts:
    return FakeArtifacts()


async def call(tool: Tool, call_id: str = "call_1", turn_id: str = "turn", **arguments: Any) -> ToolOutput:
    jsonschema_rs.validate(tool.definition.parameters, arguments)
    return await tool.call(arguments, ToolContext(call_id, turn_id, "session", CALLER))


async def failure(tool: Tool, **arguments: Any) -> str:
    with pytest.raises(ToolFailed) as caught:
        await call(tool, **arguments)
    return str(caught.value)


async def test_a_document_is_read_in_portions(artifacts: FakeArtifacts) -> None:
    note = artifacts.put("note.txt", "0123456789" * 10)
    tool = ArtifactRead(artifacts)
    first = (await call(tool, artifact=note.artifact_id, limit=40)).text
    assert first.endswith("(characters 0 to 40 of 100; continue at offset 40)")
    rest = (await call(tool, artifact="NOTE.txt", offset=40)).text
    assert rest.endswith("(characters 40 to 100 of 100)")


async def test_tables_and_images_are_read_by_kind(artifacts: FakeArtifacts) -> None:
    tool = ArtifactRead(artifacts)
    sheet = artifacts.put("a.csv", "a\n1\n", tables=[TABLE])
    assert "table sheet_1" in (await call(tool, artifact=sheet.artifact_id)).text
    assert "image" in await failure(tool, artifact=artifacts.put("p.png", b"png").artifact_id)
    assert "not processed" in await failure(tool, artifact=artifacts.put("slow.txt", "", status="pending").artifact_id)


async def test_files_of_others_are_not_there(artifacts: FakeArtifacts) -> None:
    elsewhere = artifacts.put("secret.txt", "text", session_id="another")
    artifacts.put("mine.txt", "text")
    for tool, rest in ((ArtifactRead(artifacts), {}), (ArtifactSearch(artifacts), {"query": "text"})):
        assert "no artifact with this ID" in await failure(tool, artifact=elsewhere.artifact_id, **rest)
        assert await failure(tool, artifact="secret.txt", **rest) == (
            "this session doesn't have a file 'secret.txt'; files: mine.txt"
        )
    found = await call(ArtifactSearch(artifacts), query="text")
    assert {citation.file_name for citation in found.citations} == {"mine.txt"}
    artifacts.owner = "somebody else"
    assert "no artifact with this ID" in await failure(ArtifactRead(artifacts), artifact=next(iter(artifacts.stored)))


async def test_a_search_gives_numbered_passages_and_citations(artifacts: FakeArtifacts) -> None:
    a = artifacts.put("a.txt", "The ferry leaves at nine.\nNothing else.")
    artifacts.put("b.txt", "A ferry returns at noon.")
    tool = ArtifactSearch(artifacts)
    both = await call(tool, query="ferry")
    assert both.text == "[1] (a.txt) The ferry leaves at nine.\n\n[2] (b.txt) A ferry returns at noon."
    one = await call(tool, query="ferry", artifact=a.artifact_id)
    assert [citation.artifact_id for citation in one.citations] == [a.artifact_id]
    assert (await call(tool, query="zebra")).text == "No passage matches this query."


async def test_an_unavailable_service_is_reported_to_the_model(artifacts: FakeArtifacts) -> None:
    note = artifacts.put("a.txt", "text")
    artifacts.down = True
    assert "cannot be reached" in await failure(ArtifactRead(artifacts), artifact=note.artifact_id)
    assert "cannot be reached" in await failure(ArtifactCreate(artifacts), name="a.md", content="x")


async def test_a_text_file_is_made(artifacts: FakeArtifacts) -> None:
    for name in ("a.md", "a.txt", "a.html", "a.csv", "Report.MD"):
        made = await call(ArtifactCreate(artifacts), call_id=name, name=name, content="Grüße,1\n")
        *_, stored = artifacts.generated()
        assert (stored.facts.name, stored.content) == (name, "Grüße,1\n".encode())
        made_of = [(ref.artifact_id, ref.name, ref.size) for ref in made.artifacts]
        assert made_of == [(stored.facts.artifact_id, name, 10)]
        assert stored.facts.artifact_id in made.text


async def test_a_workbook_is_made_in_which_text_stays_text(artifacts: FakeArtifacts) -> None:
    rows = [["month", "sold"], ["2025-01", 3], ['=HYPERLINK("http://x")', 1.5], ["http://x", None], [True, "007"]]
    sheets = [{"name": "A/B: [x]", "rows": rows}, {"rows": [["a"]]}, {"name": "a b   x ", "rows": []}]
    await call(ArtifactCreate(artifacts), name="b.xlsx", sheets=sheets)
    book = CalamineWorkbook.from_filelike(io.BytesIO(artifacts.generated()[0].content))
    assert book.sheet_names[:2] == ["A B   x", "Sheet2"]
    cells = book.get_sheet_by_index(0).to_python()
    assert cells[1] == ["2025-01", 3.0]
    assert [row[0] for row in cells[2:]] == ['=HYPERLINK("http://x")', "http://x", True]
    assert cells[4][1] == "007"

    rows = [["a", "b"], ['x,"y"', None]]
    await call(ArtifactCreate(artifacts), call_id="call_2", name="b.csv", sheets=[{"rows": rows}])
    text = artifacts.generated()[1].content.decode()
    assert list(csv.reader(io.StringIO(text))) == [["a", "b"], ['x,"y"', ""]]


async def test_invalid_files_are_reported(artifacts: FakeArtifacts) -> None:
    invalid: list[tuple[dict[str, Any], str]] = [
        ({"name": "a.exe", "content": "x"}, "must end in"),
        ({"name": "a.pdf", "content": "x"}, "must end in"),
        ({"name": "a", "content": "x"}, "must end in"),
        ({"name": "a.md"}, "either content or sheets"),
        ({"name": "a.md", "content": "x", "sheets": [{"rows": []}]}, "either content or sheets"),
        ({"name": "a.md", "content": ""}, "empty"),
        ({"name": "a.md", "sheets": [{"rows": []}]}, "requires content"),
        ({"name": "a.xlsx", "content": "x"}, "requires sheets"),
        ({"name": "a.csv", "sheets": [{"rows": []}, {"rows": []}]}, "one sheet"),
        ({"name": "a.json", "content": "{"}, "isn't valid JSON"),
        ({"name": "a.txt", "content": "\ud800"}, "can't be encoded"),
    ]
    for arguments, said in invalid:
        with pytest.raises(ToolFailed, match=said):
            await ArtifactCreate(artifacts).call(arguments, ToolContext("call", "turn", "session", CALLER))
    assert artifacts.generated() == []


async def test_a_call_made_again_makes_no_second_file_another_turns_does(artifacts: FakeArtifacts) -> None:
    tool = ArtifactCreate(artifacts)
    first = await call(tool, name="a.md", content="x")
    again = await call(tool, name="a.md", content="x")
    assert (first.artifacts, len(artifacts.generated())) == (again.artifacts, 1)
    await call(tool, turn_id="next", name="a.md", content="x")
    await call(tool, call_id="call_2", name="a.md", content="x")
    assert len(artifacts.generated()) == 3
