"""Makes small PDF, Word and Excel files from text, without any library: what a parser reads, and no more."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from xml.sax.saxutils import escape

from tests.support.scans import picture

_XML = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>'
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_WORD_NAMESPACES = (
    f'xmlns:w="{_WORD}" xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
    ' xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
)
_SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"


def pdf(
    pages: Sequence[str | None],
    *,
    encrypted: bool = False,
    note: str = "",
    field: str = "",
    boxes: Mapping[str, bool] | None = None,
) -> bytes:
    """Lines of Latin-1 text; a page that is None is scanned. Nobody knows the password of an encrypted one.

    A note is typed on each page, and a value filled into a form field called "The ferry" of the first one, which has
    boxes as well, with or without a tick.
    """
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"", b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    width, height, rows = picture()
    objects.append(
        b"<< /Type /XObject /Subtype /Image /Width %d /Height %d /ColorSpace /DeviceGray /BitsPerComponent 1"
        b" /Filter /FlateDecode /DecodeParms << /Predictor 15 /Colors 1 /BitsPerComponent 1 /Columns %d >>"
        b" /Length %d >>\nstream\n%s\nendstream" % (width, height, width, len(rows), rows)
    )
    kids = []
    notes = b""
    if note:
        notes = b" /Annots [<< /Type /Annot /Subtype /FreeText /Contents (%s) /Rect [50 600 250 620] >>]" % _literal(
            note
        )
    for page in pages:
        if page is None:
            stream = b"q %d 0 0 %d 50 600 cm /Scan Do Q" % (width, height)
        else:
            lines = b" ".join(b"(" + _literal(line) + b") Tj T*" for line in page.split("\n"))
            stream = b"BT /F1 12 Tf 50 750 Td 14 TL " + lines + b" ET"
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream))
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R"
            b" /Resources << /Font << /F1 3 0 R >> /XObject << /Scan 4 0 R >> >>%s >>" % (len(objects), notes)
        )
        kids.append(b"%d 0 R" % len(objects))
    objects[1] = b"<< /Type /Pages /Count %d /Kids [%s] >>" % (len(kids), b" ".join(kids))
    widgets = []
    if field:
        objects.append(
            b"<< /Type /Annot /Subtype /Widget /FT /Tx /T (f1) /TU (The ferry) /V (%s) /DA (/F1 12 Tf)"
            b" /Rect [50 560 250 580] >>" % _literal(field)
        )
        widgets.append(b"%d 0 R" % len(objects))
    for name, ticked in (boxes or {}).items():
        objects.append(b"<< /Type /XObject /Subtype /Form /BBox [0 0 9 9] /Length 0 >>\nstream\n\nendstream")
        look = b"%d 0 R" % len(objects)
        state = b"/On" if ticked else b"/Off"
        objects.append(
            b"<< /Type /Annot /Subtype /Widget /FT /Btn /T (%s) /V %s /AS %s /AP << /N << /On %s /Off %s >> >>"
            b" /Rect [50 540 59 549] >>" % (_literal(name), state, state, look, look)
        )
        widgets.append(b"%d 0 R" % len(objects))
    if widgets:
        listed = b" ".join(widgets)
        objects[0] = b"<< /Type /Catalog /Pages 2 0 R /AcroForm << /Fields [%s] >> >>" % listed
        first = int(kids[0].split()[0]) - 1
        objects[first] = objects[first][:-3] + b" /Annots [%s] >>" % listed
    trailer = b""
    if encrypted:
        objects.append(b"<< /Filter /Standard /V 1 /R 2 /O <%s> /U <%s> /P -4 >>" % (b"41" * 32, b"42" * 32))
        trailer = b" /Encrypt %d 0 R /ID [<%s> <%s>]" % (len(objects), b"0f" * 16, b"0f" * 16)
    return _numbered(objects, trailer)


def pdf_of_glyphs(lines: Sequence[str], ligatures: Mapping[str, str]) -> bytes:
    """One page of glyphs from left to right, as they are seen; ``ligatures``: the letters that some stand for."""
    glyphs = sorted(set("".join(lines)))
    codes = {glyph: number for number, glyph in enumerate(glyphs, 33)}
    letters = (
        f"<{code:02x}> <{ligatures.get(glyph, glyph).encode('utf-16-be').hex()}>" for glyph, code in codes.items()
    )
    unicode = (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /X def /CMapType 2 def"
        f" 1 begincodespacerange <00> <ff> endcodespacerange {len(codes)} beginbfchar {' '.join(letters)} endbfchar"
        " endcmap end end"
    ).encode()
    shown = "".join(f"<{''.join(f'{codes[glyph]:02x}' for glyph in line)}> Tj T* " for line in lines)
    stream = f"BT /F1 12 Tf 50 750 Td 14 TL {shown}ET".encode()
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Count 1 /Kids [3 0 R] >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 5 0 R"
        b" /Resources << /Font << /F1 4 0 R >> >> >>",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /ToUnicode 6 0 R /FirstChar 33 /LastChar %d"
        b" /Widths [%s] >>" % (32 + len(codes), b" ".join([b"500"] * len(codes))),
        *(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(each), each) for each in (stream, unicode)),
    ]
    return _numbered(objects, b"")


def _literal(line: str) -> bytes:
    return line.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)").encode("latin-1")


def _numbered(objects: Sequence[bytes], trailer: bytes) -> bytes:
    out = bytearray(b"%PDF-1.4\n")
    offsets = []
    for number, content in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    out += b"trailer << /Size %d /Root 1 0 R%s >>\n" % (len(objects) + 1, trailer)
    return bytes(out + b"startxref\n%d\n%%%%EOF\n" % table)


def docx(paragraphs: Sequence[str], *, bomb_bytes: int = 0) -> bytes:
    """A paragraph that begins with "# " is a heading. A bomb unpacks to that many bytes more."""
    return docx_of("".join(_paragraph(text) for text in paragraphs), bomb_bytes=bomb_bytes)


def docx_of(body: str, *, bomb_bytes: int = 0, addresses: Sequence[str] = (), **parts: str) -> bytes:
    """A Word document of these elements; ``parts`` are the contents of its other parts by their kind.

    ``addresses`` of links, whose ids are rId1, rId2, …
    """
    document = f"{_XML}<w:document {_WORD_NAMESPACES}><w:body>{body}"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as package:
        main = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
        _frame(package, "word/document.xml", {"/word/document.xml": main})
        links = "".join(
            f'<Relationship Id="{kind}" Type="{_OFFICE}/{kind}" Target="{kind}.xml"/>' for kind in sorted(parts)
        )
        links += "".join(
            f'<Relationship Id="rId{number}" Type="{_OFFICE}/hyperlink" Target="{address}" TargetMode="External"/>'
            for number, address in enumerate(addresses, 1)
        )
        package.writestr(
            "word/_rels/document.xml.rels",
            f'{_XML}<Relationships xmlns="{_PACKAGE}/relationships">{links}</Relationships>',
        )
        for kind, content in parts.items():
            package.writestr(f"word/{kind}.xml", f"{_XML}<w:{kind} {_WORD_NAMESPACES}>{content}</w:{kind}>")
        with package.open("word/document.xml", "w") as part:
            part.write(document.encode())
            block = b"<w:p/>" * 100_000
            for _ in range(bomb_bytes // len(block)):
                part.write(block)
            part.write(b"</w:body></w:document>")
    return packed.getvalue()


def _paragraph(text: str) -> str:
    heading = '<w:pPr><w:pStyle w:val="Heading1"/></w:pPr>' if text.startswith("# ") else ""
    return f"<w:p>{heading}<w:r><w:t>{escape(text.removeprefix('# '))}</w:t></w:r></w:p>"


def xlsx(sheets: dict[str, Iterable[Sequence[str | float]]]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as package:
        kind = "application/vnd.openxmlformats-officedocument.spreadsheetml"
        types = {"/xl/workbook.xml": f"{kind}.sheet.main+xml"}
        types |= {f"/xl/worksheets/sheet{number}.xml": f"{kind}.worksheet+xml" for number in range(1, len(sheets) + 1)}
        _frame(package, "xl/workbook.xml", types)
        names, links = "", ""
        for number, (name, rows) in enumerate(sheets.items(), 1):
            names += f'<sheet name="{escape(name)}" sheetId="{number}" r:id="rId{number}"/>'
            links += (
                f'<Relationship Id="rId{number}" Type="{_OFFICE}/worksheet" Target="worksheets/sheet{number}.xml"/>'
            )
            with package.open(f"xl/worksheets/sheet{number}.xml", "w") as part:
                part.write(f'{_XML}<worksheet xmlns="{_SHEET}"><sheetData>'.encode())
                part.writelines(f"<row>{''.join(map(_cell, cells))}</row>".encode() for cells in rows)
                part.write(b"</sheetData></worksheet>")
        workbook = f'{_XML}<workbook xmlns="{_SHEET}" xmlns:r="{_OFFICE}"><sheets>{names}</sheets></workbook>'
        package.writestr("xl/workbook.xml", workbook)
        package.writestr(
            "xl/_rels/workbook.xml.rels",
            f'{_XML}<Relationships xmlns="{_PACKAGE}/relationships">{links}</Relationships>',
        )
    return packed.getvalue()


def _cell(value: str | float) -> str:
    if isinstance(value, str):
        return f'<c t="inlineStr"><is><t>{escape(value)}</t></is></c>'
    return f"<c><v>{value}</v></c>"


def _frame(package: zipfile.ZipFile, main: str, types: dict[str, str]) -> None:
    overrides = "".join(f'<Override PartName="{part}" ContentType="{kind}"/>' for part, kind in types.items())
    relations = "application/vnd.openxmlformats-package.relationships+xml"
    package.writestr(
        "[Content_Types].xml",
        f'{_XML}<Types xmlns="{_PACKAGE}/content-types"><Default Extension="rels" ContentType="{relations}"/>'
        f'<Default Extension="xml" ContentType="application/xml"/>{overrides}</Types>',
    )
    package.writestr(
        "_rels/.rels",
        f'{_XML}<Relationships xmlns="{_PACKAGE}/relationships">'
        f'<Relationship Id="rId1" Type="{_OFFICE}/officeDocument" Target="{main}"/></Relationships>',
    )


def doc(text: str, *, encrypted: bool = False) -> bytes:
    """Word 97. What is called encrypted is so by its head alone."""
    body = text.replace("\n", "\r").encode("cp1252")
    start = 2048
    pieces = struct.pack("<II", 0, len(body)) + struct.pack("<HIH", 0, start * 2 | 1 << 30, 0)
    table = b"\x02" + struct.pack("<I", len(pieces)) + pieces
    information = bytearray(start)
    struct.pack_into("<HHHHHH", information, 0, 0xA5EC, 0x00C1, 0, 0x0409, 0, 0x0200 | encrypted << 8)
    struct.pack_into("<HH", information, 0x1C, 0, 0)
    struct.pack_into("<H", information, 0x20, 0x000E)
    struct.pack_into("<H", information, 0x3E, 0x0016)
    struct.pack_into("<I", information, 0x4C, len(body))
    struct.pack_into("<H", information, 0x98, 0x005D)
    struct.pack_into("<II", information, 0x01A2, 0, len(table))
    return _compound({"WordDocument": bytes(information) + body, "1Table": table})


def xls(rows: Sequence[Sequence[str | float]], *, protection: bytes = b"") -> bytes:
    """Excel 97, one sheet; with ``protection`` its cells are taken for encrypted in that way."""

    def record(kind: int, content: bytes) -> bytes:
        return struct.pack("<HH", kind, len(content)) + content

    def begin(kind: int) -> bytes:
        return record(0x0809, struct.pack("<HHHHII", 0x0600, kind, 0x0DBB, 0x07CC, 0, 6))

    end = record(0x000A, b"")
    name = b"Sheet1"
    sheet = b""
    for row, cells in enumerate(rows):
        for column, value in enumerate(cells):
            place = struct.pack("<HHH", row, column, 0)
            if isinstance(value, str):
                sheet += record(0x0204, place + struct.pack("<HB", len(value), 1) + value.encode("utf-16-le"))
            else:
                sheet += record(0x0203, place + struct.pack("<d", value))

    def bound(offset: int) -> bytes:
        return record(0x0085, struct.pack("<IBBBB", offset, 0, 0, len(name), 0) + name)

    password = record(0x002F, protection) if protection else b""
    globals_size = len(begin(5)) + len(password) + len(bound(0)) + len(end)
    return _compound({"Workbook": begin(5) + password + bound(globals_size) + end + begin(0x10) + sheet + end})


def protected() -> bytes:
    """A file of Office's newer formats with a password, as far as a reader without it sees."""
    return _compound({"EncryptionInfo": bytes(248), "EncryptedPackage": bytes(4096)})


def _compound(streams: dict[str, bytes]) -> bytes:
    """An OLE container; streams are padded beyond 4 KiB, where they need no second kind of table."""
    free, last = 0xFFFFFFFF, 0xFFFFFFFE
    sectors: list[bytes] = []
    chain: list[int] = []

    def store(content: bytes) -> int:
        count = -(-len(content) // 512)
        first = len(sectors)
        sectors.extend(content[i * 512 : (i + 1) * 512].ljust(512, b"\0") for i in range(count))
        chain.extend([*range(first + 1, first + count), last])
        return first

    ordered = sorted(streams.items(), key=lambda stream: (len(stream[0]), stream[0]))
    placed = {name: (store(content.ljust(4096, b"\0")), max(len(content), 4096)) for name, content in ordered}
    entries = _entry("Root Entry", 5, last, 0, child=1)
    for number, (name, (first, size)) in enumerate(placed.items(), 1):
        entries += _entry(name, 2, first, size, right=number + 1 if number < len(placed) else free)
    directory = store(entries)
    tables = 1
    while tables * 128 < len(sectors) + tables:
        tables += 1
    table_start = len(sectors)
    chain.extend([0xFFFFFFFD] * tables)
    table = b"".join(struct.pack("<I", link) for link in chain).ljust(tables * 512, b"\xff")
    header = struct.pack(
        "<8s16sHHHHH6sIIIIIIIII",
        bytes.fromhex("d0cf11e0a1b11ae1"), b"", 0x3E, 3, 0xFFFE, 9, 6, b"", 0, tables, directory, 0, 4096,
        last, 0, last, 0,
    )  # fmt: skip
    header += b"".join(struct.pack("<I", table_start + i if i < tables else free) for i in range(109))
    return header + b"".join(sectors) + table


def _entry(name: str, kind: int, first: int, size: int, *, right: int = 0xFFFFFFFF, child: int = 0xFFFFFFFF) -> bytes:
    label = name.encode("utf-16-le") + b"\0\0"
    return struct.pack(
        "<64sHBBIII16sIQQIQ", label, len(label), kind, 1, 0xFFFFFFFF, right, child, b"", 0, 0, 0, first, size
    )
