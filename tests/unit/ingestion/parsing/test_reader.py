import datetime
import io
from pathlib import Path

import pytest
import xlsxwriter

from services.ingestion.adapters.parsing import tables
from services.ingestion.adapters.parsing.reader import read_file
from services.ingestion.domain.documents import ParsedDocument
from services.ingestion.domain.parsing import Unparsable
from tests.support.office_files import doc, docx, pdf, pdf_of_glyphs, protected, xls, xlsx


@pytest.fixture
def read(tmp_path: Path):
    def call(name: str, content: bytes, content_type: str = "") -> ParsedDocument:
        path = tmp_path / "stored"
        path.write_bytes(content)
        return read_file(path, name, content_type)

    return call


def refused(read, name: str, content: bytes) -> str:
    with pytest.raises(Unparsable) as caught:
        read(name, content)
    assert caught.value.message
    return caught.value.code


def segment_texts(document: ParsedDocument) -> list[tuple[int | None, int | None, str]]:
    return [(s.page, s.row, document.text[s.text_start : s.text_end]) for s in document.segments]


def test_pdf_keeps_its_pages(read) -> None:
    document = read("a.pdf", pdf(["First (page)\nof two", "Second page"]))
    assert segment_texts(document) == [(1, None, "First (page)\nof two"), (2, None, "Second page")]


def test_a_note_typed_on_a_page_of_a_pdf_is_read(read) -> None:
    document = read("a.pdf", pdf(["First page", "Second page"], note="Paid on Monday"))
    assert segment_texts(document) == [
        (1, None, "First page\nPaid on Monday"),
        (2, None, "Second page\nPaid on Monday"),
    ]


def test_a_value_filled_into_a_form_of_a_pdf_is_read(read) -> None:
    document = read("a.pdf", pdf(["First page", "Second page"], field="Princess Anna"))
    assert segment_texts(document) == [(1, None, "First page\nThe ferry: Princess Anna"), (2, None, "Second page")]


def test_boxes_of_a_form_with_a_tick_are_read(read) -> None:
    document = read("a.pdf", pdf(["First page"], boxes={"I agree": True, "I object": False}))
    assert document.text == "First page\nI agree: On"


@pytest.mark.parametrize(
    ("seen", "ligatures", "text"),
    [
        (["בוט םלוע םולש", "רחמ"], {}, "שלום עולם טוב\nמחר"),
        (["םיקד 42 דועב"], {}, "בעוד 42 דקים"),
        # One glyph for two letters: as letters, and as the sign that Unicode has for it.
        (["م\ufefbس"], {"\ufefb": "\u0644\u0627"}, "سلام"),
        (["م\ufefbس"], {}, "سلام"),
        # The letters of an article are two glyphs.
        (["باتكلا"], {}, "الكتاب"),
        (["م\ufefbس a😀"], {"\ufefb": "\u0644\u0627"}, "سلام a😀"),
        (["ferry 7 a\ue000b"], {"\ue000": "\U0001d465"}, "ferry 7 a\U0001d465b"),
    ],
)
def test_lines_from_right_to_left_come_in_the_order_of_reading(read, seen, ligatures, text) -> None:
    assert read("a.pdf", pdf_of_glyphs(seen, ligatures)).text == text


def test_word_keeps_headings_and_signs(read) -> None:
    document = read("a.docx", docx(["# Terms & Conditions", "Smith & Sons <b> é"]))
    assert "# Terms & Conditions" in document.text
    assert "Smith & Sons <b> é" in document.text


def test_legacy_word(read) -> None:
    assert read("a.doc", doc("The café.\nSecond line.")).text.split() == ["The", "café.", "Second", "line."]


@pytest.mark.parametrize("sheet", ["a.xlsx", "a.xls"])
def test_workbook_rows_carry_their_column_names(read, sheet: str) -> None:
    rows = [("name", "age"), ("Zoë", 3), ("Bo", 4.5)]
    document = read(sheet, xls(rows) if sheet == "a.xls" else xlsx({"People": rows}))
    assert segment_texts(document) == [(None, 2, "name: Zoë, age: 3"), (None, 3, "name: Bo, age: 4.5")]


def test_sheets_are_pages(read) -> None:
    document = read("a.xlsx", xlsx({"One": [("a", "b"), ("x", 1)], "Two": [("c", "d"), ("y", 2)]}))
    assert segment_texts(document) == [(1, 2, "a: x, b: 1"), (2, 2, "c: y, d: 2")]
    assert document.text.splitlines()[0] == "One"


def test_cells_of_workbooks_are_text(read) -> None:
    made = io.BytesIO()
    with xlsxwriter.Workbook(made, {"in_memory": True}) as book:
        book.add_worksheet("Empty")
        page = book.add_worksheet("Cells")
        page.write_row(2, 1, ["number", "truth", "time"])
        for row, (number, time, form) in enumerate(
            [
                (2.5, datetime.date(2026, 5, 4), "yyyy-mm-dd"),
                (1e20, datetime.datetime(2026, 5, 4, 10, 30), "yyyy-mm-dd hh:mm"),
                (1e-7, datetime.time(10, 30), "hh:mm"),
                (-3, datetime.timedelta(hours=36), "[h]:mm"),
            ],
            3,
        ):
            page.write_row(row, 1, [number, number > 0])
            page.write_datetime(row, 3, time, book.add_format({"num_format": form}))
        chart = book.add_chart({"type": "bar"})
        chart.add_series({"values": "=Cells!$B$4:$B$7"})
        book.add_chartsheet("Chart").set_chart(chart)
        book.add_worksheet("Last").write(1, 0, "end")
    assert segment_texts(read("a.xlsx", made.getvalue())) == [
        (2, 4, "number: 2.5, truth: true, time: 2026-05-04"),
        (2, 5, "number: 100000000000000000000, truth: true, time: 2026-05-04 10:30:00"),
        (2, 6, "number: 0.0000001, truth: true, time: 10:30:00"),
        (2, 7, "number: -3, truth: false, time: 36:00:00"),
        (3, 2, "end"),
    ]


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_csv_of_any_separator(read, mark: str) -> None:
    table = "\n".join(mark.join(cells) for cells in (("name", "town"), ("Zoë", "Köln"), ("Bo", '"New\nYork"')))
    document = read("a.csv", table.encode("latin-1"))
    assert segment_texts(document) == [(None, 2, "name: Zoë, town: Köln"), (None, 3, "name: Bo, town: New York")]


def test_numbers_are_no_heading(read) -> None:
    assert segment_texts(read("a.csv", b"1,2\n3,4\n")) == [(None, 1, "1, 2"), (None, 2, "3, 4")]


def test_json_objects_are_rows(read) -> None:
    document = read("a.json", b'[{"a": 1, "b": "x y"}, {"a": {"c": 2}, "b": null}]')
    assert segment_texts(document) == [(None, 1, "a: 1, b: x y"), (None, 2, 'a: {"c":2}')]
    assert segment_texts(read("a.json", b'{"a": 1}\n{"a": 2}\n')) == [(None, 1, "a: 1"), (None, 2, "a: 2")]
    assert '"deep": [' in read("a.json", b'{"deep":[1,2]}').text


def test_json_nested_deeply_is_read_or_refused(read) -> None:
    deep = b"[" * 900 + b"42" + b"]" * 900
    assert "42" in read("a.json", deep).text
    assert "42" in read("a.json", b'[{"a": ' + deep + b"}]").text
    assert refused(read, "a.json", b"[" * 100_000) == "damaged"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("<form><p>The ferry leaves at seven.</p></form>", "The ferry leaves at seven.\n"),
        ("<nav><ul><li>Ferries</li></ul></nav><p>At seven.</p>", "- Ferries\n\nAt seven.\n"),
        ("<p>At seven.</p><noscript><p>No script.</p></noscript>", "At seven.\n\nNo script.\n"),
        ("<header>Harbour</header><main>Pier 3</main><footer>Foot</footer>", "Harbour\n\nPier 3\n\nFoot\n"),
        ("<p>Pier <svg><path d='M0 0'/><text>3</text></svg> now</p><p><svg><path/></svg></p>", "Pier 3 now\n"),
    ],
)
def test_html_is_read_whole(read, body: str, text: str) -> None:
    assert read("a.html", f"<html><body>{body}</body></html>".encode()).text == text


IMAGE = "data:image/png;base64," + "iVBORw0KGgo" * 50


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("a.html", f'<p>See <img src="{IMAGE}" alt="the map"> here.</p>', "See the map here.\n"),
        ("a.html", f"<p>See here.</p><p><img alt='' src='{IMAGE}'></p>", "See here.\n"),
        ("a.html", """<p>A<img alt=map src='data:image/svg+xml;utf8,<svg a="(1)">x</svg>'>B</p>""", "AmapB\n"),
        ("a.html", f'<p><a href="{IMAGE}">Download</a> <img src="a.png" alt="map"></p>', "Download ![map](a.png)\n"),
        ("a.html", "<p>The word data: is no image.</p>", "The word data: is no image.\n"),
        ("a.md", f"See ![the map]({IMAGE}) here.\n", "See the map here.\n"),
        ("a.md", f"See ![the map](<{IMAGE}> 'Map') here, ![b](b.png).\n", "See the map here, ![b](b.png).\n"),
        ("a.md", f"See ![the [old] map]({IMAGE}), [![b]({IMAGE})](b.html).", "See the [old] map, [b](b.html)."),
        ("a.md", f"See <img alt=map src={IMAGE}> here.", "See map here."),
        ("a.md", f"See ![the map][m] and ![m].\n\n[m]: {IMAGE}\n[n]: a.png\n", "See the map and m.\n\n[n]: a.png\n"),
        (
            "a.md",
            f'See <img alt="the map" src="{IMAGE}"/> and <img src="a.png">.',
            'See the map and <img src="a.png">.',
        ),
        ("a.md", "The word data: is no image, [nor](data.html).", "The word data: is no image, [nor](data.html)."),
    ],
)
def test_images_inside_of_a_text_give_their_alternative_text(read, name: str, content: str, text: str) -> None:
    assert read(name, content.encode()).text.strip() == text.strip()


def test_html_gives_its_title_and_body_alone(read) -> None:
    head = "<head><title>Tea &amp; Co</title><meta name='description' content='dd'></head>"
    page = f"<html>{head}<body><h1>Green</h1><p>caf&eacute;</p></body></html>"
    assert read("a.html", page.encode()).text == "Tea & Co\n\n# Green\n\ncafé\n"


def test_tables_come_without_padding(read) -> None:
    cells = "<tr><th>A long name of a column</th><th>n</th></tr><tr><td>x  y</td><td>1</td></tr>"
    text = read("a.html", f"<p>p</p><table>{cells}</table><pre>a    b</pre>".encode()).text
    assert "| A long name of a column | n |\n| --- | --- |\n| x y | 1 |" in text
    assert "a    b" in text


def test_form_feeds_end_pages(read) -> None:
    assert segment_texts(read("a.txt", b"one\ftwo")) == [(1, None, "one"), (2, None, "two")]


def test_the_content_type_decides_when_the_name_has_no_extension(read) -> None:
    assert read("README", b"# Hi", "text/markdown; charset=utf-8").text == "# Hi"


def test_unknown_types_are_refused(read) -> None:
    assert refused(read, "a.exe", b"MZ") == "unsupported"


@pytest.mark.parametrize("content", [b"", b" \n\t ", "\ufeff".encode()])
def test_files_without_text_are_empty(read, content: bytes) -> None:
    assert refused(read, "a.txt", content) == "empty"


@pytest.mark.parametrize("name", ["a.pdf", "a.docx", "a.doc", "a.xlsx", "a.xls"])
def test_garbage_is_damaged(read, name: str) -> None:
    assert refused(read, name, b"garbage " * 100) == "damaged"


def test_truncated_files_are_damaged(read) -> None:
    assert refused(read, "a.docx", docx(["cut " * 500])[:600]) == "damaged"
    assert refused(read, "a.pdf", pdf(["cut " * 500])[:600]) == "damaged"
    assert refused(read, "a.json", b'[{"a": ') == "damaged"


def test_passwords_are_named_as_the_reason(read) -> None:
    assert refused(read, "a.pdf", pdf(["secret"], encrypted=True)) == "encrypted"
    assert refused(read, "a.docx", protected()) == "encrypted"
    assert refused(read, "a.xlsx", protected()) == "encrypted"
    assert refused(read, "a.doc", doc("secret", encrypted=True)) == "encrypted"


def test_a_bomb_is_not_unpacked(read) -> None:
    assert refused(read, "a.docx", docx(["x"], bomb_bytes=60_000_000)) == "too_large"


def test_too_much_text_or_too_many_rows(read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MOST_CHARACTERS", 100)
    monkeypatch.setattr(tables, "MOST_ROWS", 2)
    assert refused(read, "a.txt", b"word " * 30) == "too_large"
    assert refused(read, "a.pdf", pdf(["a line of words\n" * 10])) == "too_large"
    assert refused(read, "a.csv", b"a,b\n1,2\n1,2\n1,2\n") == "too_large"
    assert refused(read, "a.xlsx", xlsx({"S": [("a", "b"), *[(1, 2)] * 3]})) == "too_large"


def test_words_that_a_line_of_a_pdf_divides_are_whole(read) -> None:
    document = read("a.pdf", pdf(["Public trans-\nportation costs 3-\n4 euros - or\nmore."]))
    assert document.text == "Public transportation costs 3-\n4 euros - or\nmore."
