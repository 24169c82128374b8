"""The final text of Word documents."""

import io
import zipfile
from pathlib import Path
from typing import Any

import pytest

from libs.documents import DocumentUnreadable
from services.ingestion.adapters.parsing.word import word_text
from tests.support.office_files import docx_of


def run(text: str) -> str:
    return f"<w:r><w:t>{text}</w:t></w:r>"


def paragraph(*runs: str, properties: str = "") -> str:
    return f"<w:p><w:pPr>{properties}</w:pPr>{''.join(runs)}</w:p>"


def box(text: str) -> str:
    return f"<w:r><w:pict><w:txbxContent>{paragraph(run(text))}</w:txbxContent></w:pict></w:r>"


@pytest.fixture
def read(tmp_path: Path):
    def call(body: str, **parts: Any) -> str:
        path = tmp_path / "stored"
        path.write_bytes(docx_of(body, **parts))
        return word_text(path)

    return call


@pytest.mark.parametrize(
    ("sign", "expected"),
    [
        ("<w:tab/>", "Fare\t245"),
        ("<w:ptab/>", "Fare\t245"),
        ("<w:br/>", "Fare\n245"),
        ('<w:br w:type="page"/>', "Fare\n245"),
        ("<w:cr/>", "Fare\n245"),
        ("<w:noBreakHyphen/>", "Fare-245"),
        ("<w:softHyphen/>", "Fare245"),
        ('<w:sym w:font="Arial" w:char="20AC"/>', "Fare€245"),
        ('<w:sym w:font="Wingdings" w:char="F0FC"/>', "Fare245"),
    ],
)
def test_signs_stand_where_they_are_shown(read, sign: str, expected: str) -> None:
    assert read(f"<w:p><w:r><w:t>Fare</w:t>{sign}<w:t>245</w:t></w:r></w:p>") == expected


def test_a_paragraph_and_its_text_box_both_count(read) -> None:
    body = paragraph(run("Ferries leave"), box("Tickets on board"), run(" at seven."))
    assert read(body) == "Ferries leave at seven.\n\nTickets on board"


def test_one_of_several_alternatives_counts(read) -> None:
    alternatives = (
        f"<w:r><mc:AlternateContent><mc:Choice Requires='wps'>{box('shown')}</mc:Choice>"
        f"<mc:Fallback>{box('shown')}</mc:Fallback></mc:AlternateContent></w:r>"
    )
    assert read(paragraph(run("Text"), alternatives)) == "Text\n\nshown"


def test_revisions_are_accepted(read) -> None:
    body = paragraph(
        run("The "),
        f"<w:del>{run('old').replace('w:t>', 'w:delText>')}</w:del>",
        f"<w:ins>{run('new')}</w:ins>",
        f"<w:moveFrom>{run('from here')}</w:moveFrom>",
        f"<w:moveTo>{run(' pier')}</w:moveTo>",
    )
    assert read(body) == "The new pier"


def test_notes_stand_at_the_end_and_headers_and_footers_once(read) -> None:
    body = paragraph(
        run("Fares rise"),
        '<w:r><w:footnoteReference w:id="2"/></w:r>',
        run(" in May"),
        '<w:r><w:endnoteReference w:id="2"/></w:r>',
        run("."),
    )
    separator = f'<w:footnote w:type="separator" w:id="0">{paragraph(run("----"))}</w:footnote>'
    text = read(
        body,
        footnotes=separator + f'<w:footnote w:id="2">{paragraph(run("By two francs."))}</w:footnote>',
        endnotes=f'<w:endnote w:id="2">{paragraph(run("On the first."))}</w:endnote>',
        header=paragraph(run("Lake Ferries")),
        footer=paragraph(run("Page 1")),
    )
    assert text.split("\n\n") == [
        "Lake Ferries",
        "Fares rise[^1] in May[^2].",
        "[^1]: By two francs.",
        "[^2]: On the first.",
        "Page 1",
    ]


def test_a_note_that_refers_to_itself_has_an_end(read) -> None:
    reference = '<w:r><w:footnoteReference w:id="2"/></w:r>'
    note = f'<w:footnote w:id="2">{paragraph(run("See"), reference)}</w:footnote>'
    assert read(paragraph(run("Text"), reference), footnotes=note) == "Text[^1]\n\n[^1]: See[^1]"


def structure(element: str, **parts: str) -> str:
    inner = "".join(f"<m:{name}><m:r><m:t>{text}</m:t></m:r></m:{name}>" for name, text in parts.items())
    return f"<m:{element}>{inner}</m:{element}>"


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("<m:r><m:t>E=m</m:t></m:r>" + structure("sSup", e="c", sup="2"), "E=mc^2"),
        (structure("f", num="a+b", den="2"), "(a+b)/2"),
        (structure("sSub", e="x", sub="ij"), "x_(ij)"),
        (structure("sSubSup", e="x", sub="1", sup="2"), "x_1^2"),
        (structure("rad", deg="3", e="ab"), "3√(ab)"),
        (structure("nary", sub="0", sup="1", e="x"), "∫_0^1 x"),
        ("<m:d><m:e><m:r><m:t>x</m:t></m:r></m:e><m:e><m:r><m:t>y</m:t></m:r></m:e></m:d>", "(x, y)"),
    ],
)
def test_formulas_stand_in_their_sentence(read, formula: str, expected: str) -> None:
    body = paragraph(run("Energy is "), f"<m:oMath>{formula}</m:oMath>", run(" by Einstein."))
    assert read(body) == f"Energy is {expected} by Einstein."


def test_headings_have_the_levels_of_their_styles(read) -> None:
    styles = (
        '<w:style w:styleId="Base"><w:pPr><w:outlineLvl w:val="1"/></w:pPr></w:style>'
        '<w:style w:styleId="Mine"><w:basedOn w:val="Base"/></w:style>'
        '<w:style w:styleId="Named"><w:name w:val="heading 3"/></w:style>'
        '<w:style w:styleId="Endless"><w:basedOn w:val="Endless"/></w:style>'
    )
    body = "".join(
        paragraph(run(style), properties=f'<w:pStyle w:val="{style}"/>')
        for style in ("Title", "Mine", "Named", "Endless", "Heading1")
    )
    assert read(body, styles=styles).split("\n\n") == ["# Title", "## Mine", "### Named", "Endless", "# Heading1"]


def test_lists_and_tables_are_markdown(read) -> None:
    item = '<w:numPr><w:ilvl w:val="1"/><w:numId w:val="4"/></w:numPr>'
    cell = "<w:tc>{}</w:tc>".format
    rows = "".join(
        f"<w:tr>{''.join(cell(paragraph(run(text))) for text in row)}</w:tr>"
        for row in (("Port", "Fare|CHF"), ("Ouchy", "21"), ("Evian",))
    )
    framed = f"<w:tbl><w:tr><w:tc>{paragraph(run('Framed'))}</w:tc></w:tr></w:tbl>"
    text = read(paragraph(run("Item"), properties=item) + f"<w:tbl>{rows}</w:tbl>" + framed)
    table = "| Port | Fare\\|CHF |\n| --- | --- |\n| Ouchy | 21 |\n| Evian |  |"
    assert text == f"  - Item\n\n{table}\n\nFramed"


def test_content_controls_and_links_are_read(read) -> None:
    body = f"<w:sdt><w:sdtPr><w:tag w:val='t'/></w:sdtPr><w:sdtContent>{paragraph(run('Name'))}</w:sdtContent></w:sdt>"
    link = paragraph("<w:hyperlink>" + run("here") + "</w:hyperlink>")
    assert read(body + link) == "Name\n\nhere"


def test_a_link_has_its_address(read) -> None:
    links = ('w:id="rId1"', 'w:id="rId1" w:anchor="fares"', 'w:id="rId2"', 'w:id="unknown"', 'w:anchor="here"')
    body = "".join(paragraph(f"<w:hyperlink {link}>{run('a.example')}</w:hyperlink>") for link in links)
    assert read(body, addresses=["https://a.example", "a.example"]).split("\n\n") == [
        "[a.example](https://a.example)",
        "[a.example](https://a.example#fares)",
        "a.example",
        "a.example",
        "a.example",
    ]


def test_a_cell_takes_as_many_columns_as_it_is_wide(read) -> None:
    def cell(text: str, width: str = "1") -> str:
        return f'<w:tc><w:tcPr><w:gridSpan w:val="{width}"/></w:tcPr>{paragraph(run(text))}</w:tc>'

    rows = (cell("Port", "2") + cell("Fare"), cell("Ouchy") + cell("Evian") + cell("21"))
    body = "<w:tbl>" + "".join(f"<w:tr>{row}</w:tr>" for row in rows) + "</w:tbl>"
    assert read(body) == "| Port |  | Fare |\n| --- | --- | --- |\n| Ouchy | Evian | 21 |"
    assert read(f"<w:tbl><w:tr>{cell('Framed', '9' * 30)}</w:tr></w:tbl>").count("|") == 2 * 64


def test_a_document_type_is_refused(tmp_path: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as package:
        package.writestr("word/document.xml", '<!DOCTYPE x [<!ENTITY a "aaaa">]><x>&a;</x>')
    (tmp_path / "bomb").write_bytes(packed.getvalue())
    with pytest.raises(DocumentUnreadable, match="document type"):
        word_text(tmp_path / "bomb")


def test_a_package_without_a_document_is_refused(tmp_path: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as package:
        package.writestr("other.xml", "<x/>")
    (tmp_path / "other").write_bytes(packed.getvalue())
    with pytest.raises(DocumentUnreadable, match="main text is missing"):
        word_text(tmp_path / "other")
