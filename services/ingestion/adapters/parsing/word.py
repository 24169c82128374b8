"""Reads the text of a Word document, with its revisions accepted.

Files with a document type declaration are rejected, since the declaration could define XML entities.
"""

import posixpath
import re
import zipfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from libs.documents import DocumentUnreadable

_PREFIXES: Final = {
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main": "w",
    "http://purl.oclc.org/ooxml/wordprocessingml/main": "w",
    "http://schemas.openxmlformats.org/officeDocument/2006/math": "m",
    "http://purl.oclc.org/ooxml/officeDocument/math": "m",
    "http://schemas.openxmlformats.org/markup-compatibility/2006": "mc",
}
_MAIN: Final = "word/document.xml"
_SIGNS: Final = {"w:tab": "\t", "w:ptab": "\t", "w:br": "\n", "w:cr": "\n", "w:noBreakHyphen": "-"}
# The content of these elements was deleted, was moved elsewhere, or is hidden.
_LEFT_OUT: Final = frozenset({"w:del", "w:moveFrom", "w:pPr", "w:rPr", "w:sdtPr", "w:rt", "m:ctrlPr"})
_WRAPPERS: Final = frozenset({"w:sdt", "w:sdtContent", "w:ins", "w:moveTo", "w:customXml", "w:smartTag", "mc:Choice"})
_NOTES: Final = {"w:footnoteReference": "footnotes", "w:endnoteReference": "endnotes"}
_HEADING: Final = re.compile(r"heading ?([1-6])", re.IGNORECASE)
# This is Word's limit.
_MOST_COLUMNS: Final = 63
_PRIVATE_USE: Final = range(0xE000, 0xF900)


def word_text(path: Path) -> str:
    """Returns the document as Markdown, with headings, lists and tables. Raises ``DocumentUnreadable``."""
    with zipfile.ZipFile(path) as package:
        return "\n\n".join(_Document(package).blocks())


class _Document:
    def __init__(self, package: zipfile.ZipFile) -> None:
        self._package = package
        main = next((target for kind, target in self._related("") if kind == "officeDocument"), _MAIN)
        self._body = self._part(main)
        self._links = self._addresses(main)
        self._parts: dict[str, list[str]] = {}
        for kind, target in self._related(main):
            self._parts.setdefault(kind, []).append(target)
        self._levels = self._outline_levels()
        self._references: dict[tuple[str, str], int] = {}

    def blocks(self) -> Iterator[str]:
        if self._body is None:
            raise DocumentUnreadable("The file is damaged or incomplete: its main text is missing.")
        yield from self._margins("header")
        for body in self._body:
            yield from self._blocks(body)
        yield from self._notes()
        yield from self._margins("footer")

    def _margins(self, kind: str) -> Iterator[str]:
        found: dict[str, None] = {}
        for target in self._parts.get(kind, ()):
            self._links = self._addresses(target)
            if (root := self._part(target)) is not None:
                found |= dict.fromkeys(self._blocks(root))
        yield from found

    def _notes(self) -> Iterator[str]:
        notes = {
            (kind, _value(note, "id")): note
            for kind in _NOTES.values()
            for target in self._parts.get(kind, ())
            for note in self._part(target) or ()
        }
        links = {kind: self._addresses(target) for kind in _NOTES.values() for target in self._parts.get(kind, ())}
        for reference, number in list(self._references.items()):
            if (note := notes.get(reference)) is not None:
                self._links = links[reference[0]]
                yield f"[^{number}]: {' '.join(self._blocks(note))}"

    def _blocks(self, parent: Element) -> Iterator[str]:
        for child in _children(parent):
            match _name(child.tag):
                case "w:p":
                    yield from self._paragraph(child)
                case "w:tbl":
                    yield from self._table(child)

    def _paragraph(self, paragraph: Element) -> Iterator[str]:
        boxes: list[Element] = []
        text = "".join(self._inline(paragraph, boxes)).strip()
        if text:
            yield self._prefix(paragraph) + text
        for box in boxes:
            yield from self._blocks(box)

    def _prefix(self, paragraph: Element) -> str:
        properties = _child(paragraph, "w:pPr")
        style = _value(_child(properties, "w:pStyle"), "val")
        level = _level(_value(_child(properties, "w:outlineLvl"), "val")) or self._levels.get(style) or _named(style)
        if level:
            return "#" * level + " "
        numbering = _child(properties, "w:numPr")
        if numbering is None or _value(_child(numbering, "w:numId"), "val") == "0":
            return ""
        depth = _value(_child(numbering, "w:ilvl"), "val")
        return "  " * min(int(depth) if depth.isdecimal() else 0, 8) + "- "

    def _inline(self, parent: Element, boxes: list[Element]) -> Iterator[str]:
        for child in _children(parent):
            name = _name(child.tag)
            if name == "w:t":
                yield child.text or ""
            elif name in _SIGNS:
                yield _SIGNS[name]
            elif name == "w:sym":
                yield _symbol(_value(child, "char"))
            elif name in _NOTES:
                reference = (_NOTES[name], _value(child, "id"))
                yield f"[^{self._references.setdefault(reference, len(self._references) + 1)}]"
            elif name == "w:txbxContent":
                boxes.append(child)
            elif name == "m:oMath":
                yield _formula(child)
            elif name == "w:hyperlink":
                yield self._link(child, "".join(self._inline(child, boxes)))
            elif name not in _LEFT_OUT:
                yield from self._inline(child, boxes)

    def _link(self, link: Element, text: str) -> str:
        address = self._links.get(_value(link, "id"), "")
        if anchor := _value(link, "anchor"):
            address = address and f"{address}#{anchor}"
        return f"[{text}]({address})" if address and text.strip() not in ("", address) else text

    def _table(self, table: Element) -> Iterator[str]:
        rows = [
            [part for cell in _children(row) if _name(cell.tag) == "w:tc" for part in self._cell(cell)]
            for row in _children(table)
            if _name(row.tag) == "w:tr" and _child(_child(row, "w:trPr"), "w:del") is None
        ]
        width = max((len(row) for row in rows), default=0)
        if width == 1:
            # A single column is a frame around text.
            yield from (block for row in rows for cell in row for block in cell)
        elif any(cell for row in rows for cell in row):
            lines = [_row([" ".join(cell) for cell in row], width) for row in rows]
            yield "\n".join([lines[0], _row(["---"] * width, width), *lines[1:]])

    def _cell(self, cell: Element) -> list[list[str]]:
        """Returns the cell's blocks, followed by an empty list for each further column that the cell spans."""
        width = _value(_child(_child(cell, "w:tcPr"), "w:gridSpan"), "val")
        further = min(int(width), _MOST_COLUMNS) - 1 if width.isdecimal() else 0
        return [list(self._blocks(cell)), *([] for _ in range(further))]

    def _outline_levels(self) -> dict[str, int]:
        """Returns the heading level of each style. A style without a level inherits the level of its base style."""
        own: dict[str, int | None] = {}
        bases: dict[str, str] = {}
        for target in self._parts.get("styles", ()):
            for style in self._part(target) or ():
                name = _value(style, "styleId")
                outline = _value(_child(_child(style, "w:pPr"), "w:outlineLvl"), "val")
                own[name] = _level(outline) or _named(_value(_child(style, "w:name"), "val"))
                bases[name] = _value(_child(style, "w:basedOn"), "val")
        found: dict[str, int] = {}
        for name in own:
            at, seen = name, set[str]()
            while at in own and not own[at] and at not in seen:
                seen.add(at)
                at = bases[at]
            if level := own.get(at):
                found[name] = level
        return found

    def _related(self, part: str) -> Iterator[tuple[str, str]]:
        """Yields the kind and name of each part that this part refers to. An empty ``part`` is the package itself."""
        folder = posixpath.dirname(part)
        for relation in self._relations(part):
            target = relation.get("Target", "")
            if relation.get("TargetMode") != "External":
                full = posixpath.normpath(posixpath.join(folder, target)) if target[:1] != "/" else target[1:]
                yield relation.get("Type", "").rpartition("/")[2], full

    def _addresses(self, part: str) -> dict[str, str]:
        """Returns the addresses of the part's links by reference ID."""
        return {
            relation.get("Id", ""): relation.get("Target", "")
            for relation in self._relations(part)
            if relation.get("TargetMode") == "External"
        }

    def _relations(self, part: str) -> Iterator[Element]:
        folder, name = posixpath.split(part)
        root = self._part(posixpath.join(folder, "_rels", f"{name}.rels"))
        yield from root if root is not None else ()

    def _part(self, name: str) -> Element | None:
        try:
            content = self._package.open(name)
        except KeyError:
            return None
        with content:
            try:
                parser = ElementTree.XMLParser(target=_Builder())  # noqa: S314 - entities can't be defined
                return ElementTree.parse(content, parser).getroot()  # noqa: S314
            except (ElementTree.ParseError, zipfile.BadZipFile, EOFError, ValueError) as error:
                raise DocumentUnreadable(f"The file is damaged or incomplete: {error}.") from None


class _Builder(ElementTree.TreeBuilder):
    def doctype(self, *_: Any) -> None:
        raise ValueError("it declares a document type")


@lru_cache(maxsize=1000)
def _name(tag: str) -> str:
    """Returns the tag's name with the usual prefix, such as ``w:p``."""
    namespace, _, name = tag[1:].rpartition("}")
    return f"{_PREFIXES.get(namespace, '')}:{name}"


def _children(parent: Element) -> Iterator[Element]:
    """Yields the children, including those in revisions, content controls and the first of several alternatives."""
    for child in parent:
        name = _name(child.tag)
        if name == "mc:AlternateContent":
            yield from _children(child[0]) if len(child) else ()
        elif name in _WRAPPERS:
            yield from _children(child)
        else:
            yield child


def _child(parent: Element | None, name: str) -> Element | None:
    return None if parent is None else next((child for child in parent if _name(child.tag) == name), None)


def _value(element: Element | None, name: str) -> str:
    if element is None:
        return ""
    return next((value for key, value in element.items() if key.rpartition("}")[2] == name), "")


def _level(outline: str) -> int | None:
    """Returns the heading level for Word's outline level, which counts from 0. Level 9 is body text."""
    return int(outline) + 1 if outline.isdecimal() and int(outline) < 6 else None


def _named(style: str) -> int | None:
    if style.lower() == "title":
        return 1
    found = _HEADING.fullmatch(style)
    return int(found.group(1)) if found else None


def _row(cells: list[str], width: int) -> str:
    shown = [" ".join(cell.split()).replace("|", "\\|") for cell in cells]
    return f"| {' | '.join(shown + [''] * (width - len(cells)))} |"


def _symbol(code: str) -> str:
    """Returns the symbol, or "" if it has no Unicode character, as in Wingdings."""
    try:
        number = int(code, 16)
    except ValueError:
        return ""
    return "" if number in _PRIVATE_USE or not 0x20 <= number <= 0x10FFFF else chr(number)


def _formula(element: Element) -> str:
    """Renders a formula as plain text, such as ``a/(b+c)``."""

    def part(name: str, *, grouped: bool = True) -> str:
        found = _child(element, f"m:{name}")
        text = "" if found is None else _formula(found)
        return f"({text})" if grouped and len(text) > 1 else text

    match _name(element.tag):
        case "m:t":
            return element.text or ""
        case "m:f":
            return f"{part('num')}/{part('den')}"
        case "m:sSup":
            return f"{part('e', grouped=False)}^{part('sup')}"
        case "m:sSub":
            return f"{part('e', grouped=False)}_{part('sub')}"
        case "m:sSubSup":
            return f"{part('e', grouped=False)}_{part('sub')}^{part('sup')}"
        case "m:rad":
            return f"{part('deg')}√{part('e')}"
        case "m:nary":
            sign = _value(_child(_child(element, "m:naryPr"), "m:chr"), "val") or "∫"
            return f"{sign}_{part('sub')}^{part('sup')} {part('e', grouped=False)}"
        case "m:d":
            return f"({', '.join(_formula(each) for each in element if _name(each.tag) == 'm:e')})"
        case name if name in _LEFT_OUT:
            return ""
    return "".join(_formula(child) for child in _children(element))
