"""Knowledge: passages in texts, tables in text, settings in forms, ingestions in events."""

from typing import Any

import pytest

from tests.unit.web.conftest import Run

PLACES = (
    ("one two three", "two", "two"),
    ("one\n  two\tthree", "one two", "one\n  two"),
    ("🤖 one 🤖 two", " 🤖 two ", "🤖 two"),
    ("(a|b)* $1", "(a|b)*", "(a|b)*"),
    ("one two", "three", None),
    ("one two", "  ", None),
)


@pytest.mark.parametrize(("text", "passage", "found"), PLACES)
def test_a_passage_is_found_whatever_its_blanks(run: Run, text: str, passage: str, found: str | None) -> None:
    expression = "((at) => at && given[0].slice(...at))(m.locate(given[0], given[1]))"
    assert run("model/knowledge.js", expression, [text, passage]) == found


MARKS = (
    ("Ähre, ähren und ÄHRE", "ähre?", ["Ähre", "ÄHRE"]),
    ("a.b a*b", ".*", []),
    ("berth nine, berths", "nine berth", ["berth", "nine", "berths"]),
    ("May 2026. Dogs travel on a lead, dogmas do not.", "May I take my dog?", ["Dogs"]),
    ("ferries and a ferry", "ferry", ["ferries", "ferry"]),
    ("to be or not", "to be", ["to", "be"]),
    ("<b>bold</b>", "bold", ["bold"]),
)


@pytest.mark.parametrize(("text", "query", "words"), MARKS)
def test_words_of_the_query_are_marked(run: Run, text: str, query: str, words: list[str]) -> None:
    pieces = run("model/knowledge.js", "m.marked(given[0], given[1])", [text, query])
    assert "".join(piece["text"] for piece in pieces) == text
    assert [piece["text"] for piece in pieces if piece["marked"]] == words


def test_characters_are_counted_as_the_service_counts_them(run: Run) -> None:
    assert run("model/knowledge.js", "m.characters('a🤖é')") == 3


TABLES: list[tuple[str, list[str], list[list[str]]]] = [
    ('a,b\r\n"1,""x""",2\r\n', ["a", "b"], [['1,"x"', "2"]]),
    ('\ufeffa;b\n"1\n2";3', ["a", "b"], [["1\n2", "3"]]),
    ("a\tb\n\n1\t2\n3\t4\n5\t6\n", ["a", "b"], [["1", "2"], ["3", "4"]]),
    ("", [], []),
]


@pytest.mark.parametrize(("text", "headers", "rows"), TABLES)
def test_the_first_rows_of_a_table(run: Run, text: str, headers: list[str], rows: list[list[str]]) -> None:
    assert run("studio/parts/files/document.js", "m.readCsv(given, 2)", text) == {"headers": headers, "rows": rows}


CONTENT = "{collectionIds: ['c'], fileIds: ['f']}"


def test_a_new_form_holds_the_defaults(run: Run) -> None:
    body = run("model/knowledge.js", f"m.bodyOf({{...m.formOf(null), name: ' x '}}, {CONTENT})")
    assert body == {
        "name": "x",
        "description": "",
        "collection_ids": ["c"],
        "file_ids": ["f"],
        "chunking_strategy": {
            "strategy": "recursive",
            "chunk_size": 512,
            "chunk_overlap": 64,
            "split_by": "token",
            "recursive_separators": ["\n\n", "\n", ". ", " "],
        },
        "embedding_config": {"provider": "wordllama"},
    }


def test_what_is_there_comes_back_unchanged(run: Run) -> None:
    chunking = {"strategy": "sentence", "chunk_size": 9, "chunk_overlap": 0, "split_by": "word"}
    given = {
        "name": "n",
        "description": "d",
        "processing_engine": "weaviate",
        "chunking_strategy": chunking,
        "embedding_config": {"provider": "openai", "model": "m", "dimensions": 8},
    }
    body = run("model/knowledge.js", f"m.bodyOf(m.formOf(given), {CONTENT})", given)
    assert body == {**given, "collection_ids": ["c"], "file_ids": ["f"]}


WRONG = (
    ("size", "many", "chunk_size"),
    ("separators", '"a", b', "recursive_separators"),
    ("dimensions", "1.5", "dimensions"),
)


@pytest.mark.parametrize(("field", "text", "name"), WRONG)
def test_what_cannot_be_sent_is_told_at_its_field(run: Run, field: str, text: str, name: str) -> None:
    attempt = f"m.bodyOf({{...m.formOf(null), ...given}}, {CONTENT})"
    refused = f"(() => {{ try {{ return {attempt} }} catch (problem) {{ return problem.details }} }})()"
    [detail] = run("model/knowledge.js", refused, {field: text})
    assert detail["loc"][1] == name


def test_progress_of_the_own_ingestion_changes_the_record(run: Run) -> None:
    base: dict[str, Any] = {"id": "k", "status": "pending", "progress": 0}
    told = {"progress": 40, "finished_datasources": 2, "total_datasources": 5, "metadata": {"phase": "embedding"}}
    events = [
        {"type": "knowledge_base.ingestion.progress", "data": {"knowledge_base_id": "other", **told}},
        {"type": "knowledge_base.ingestion.progress", "data": {"knowledge_base_id": "k", **told}},
        {"type": "knowledge_base.updated", "data": {"knowledge_base": {"id": "k"}}},
    ]
    other, own, anew = run("model/knowledge.js", "given[1].map((event) => m.after(given[0], event))", [base, events])
    assert other == base
    assert (own["status"], own["progress"], own["processing_metadata"]) == ("running", 40, {"phase": "embedding"})
    assert anew is None
    assert run("model/knowledge.js", "m.stageText(given)", own) == "2 of 5 files done. 40 %"
