"""The `artifact_create` tool."""

import asyncio
import csv
import io
from collections.abc import Callable
from pathlib import PurePath
from typing import Any, Final

import orjson

from services.runtime.adapters.tools.artifacts.artifact_reading import artifact_lookup
from services.runtime.domain.artifacts import SessionArtifacts
from services.runtime.domain.conversation import ArtifactRef, JsonObject
from services.runtime.domain.tools import ToolContext, ToolDefinition, ToolFailed, ToolOutput, object_schema

_TEXTS: Final = (".md", ".txt", ".html", ".csv", ".json")
_TABLES: Final = (".csv", ".xlsx")
_CELL: Final = {"type": ["string", "number", "boolean", "null"], "maxLength": 32_000}
_SHEET: Final = object_schema(
    ["rows"],
    name={"type": "string", "maxLength": 100},
    rows={
        "type": "array",
        "description": "the first row contains the headers",
        "items": {"type": "array", "items": _CELL, "maxItems": 500},
        "maxItems": 20_000,
    },
)
_LONGEST_SHEET_NAME: Final = 31
_NOT_IN_SHEET_NAMES: Final = str.maketrans(dict.fromkeys("[]:*?/\\'", " "))


class ArtifactCreate:
    definition = ToolDefinition(
        name="artifact_create",
        description=(
            "Creates a file in this session that the user can download. The file extension determines the format: .md,"
            " .txt, .html, .csv or .json from `content`; .xlsx or .csv from `sheets`."
        ),
        parameters=object_schema(
            ["name"],
            name={"type": "string", "minLength": 1, "maxLength": 200, "description": "e.g. summary.xlsx"},
            content={"type": "string", "maxLength": 400_000},
            sheets={"type": "array", "minItems": 1, "maxItems": 20, "items": _SHEET},
        ),
        # The file's key is derived from the call, so a repeated call returns the first file.
        safe_to_repeat=True,
        timeout_seconds=60.0,
    )

    def __init__(self, artifacts: SessionArtifacts) -> None:
        self._artifacts = artifacts

    async def call(self, arguments: JsonObject, context: ToolContext, /) -> ToolOutput:
        name: str = arguments["name"].strip()
        content = await asyncio.to_thread(_writer(name, arguments))
        async with artifact_lookup(self._artifacts, context):
            made = await self._artifacts.create(
                context.session_id,
                context.caller,
                name=name,
                # Call IDs are unique only within their turn.
                key=f"{context.turn_id}/{context.call_id}",
                content=content,
            )
        ref = ArtifactRef(made.artifact_id, made.name, made.content_type, made.size)
        return ToolOutput(f"Created {made.name} ({made.size} bytes), artifact {made.artifact_id}.", artifacts=(ref,))


def _writer(name: str, arguments: JsonObject) -> Callable[[], bytes]:
    """Returns a function that builds the file's content. Raises ToolFailed if the arguments don't fit its extension."""
    ending = PurePath(name).suffix.lower()
    content: str | None = arguments.get("content")
    sheets: list[JsonObject] | None = arguments.get("sheets")
    if ending not in (*_TEXTS, *_TABLES):
        raise ToolFailed(f"the name must end in one of {', '.join(dict.fromkeys((*_TEXTS, *_TABLES)))}")
    if (content is None) == (sheets is None):
        raise ToolFailed("specify either content or sheets")
    if sheets is not None:
        if ending not in _TABLES:
            raise ToolFailed(f"a {ending} file requires content instead of sheets")
        if ending == ".csv" and len(sheets) > 1:
            raise ToolFailed("a .csv file can only have one sheet; use .xlsx for several sheets")
        return lambda: _workbook(sheets) if ending == ".xlsx" else _csv(sheets[0]["rows"])
    if ending not in _TEXTS:
        raise ToolFailed(f"a {ending} file requires sheets instead of content")
    if not content:
        raise ToolFailed("the content is empty")
    return lambda: _text(ending, content)


def _text(ending: str, content: str) -> bytes:
    if ending == ".json":
        try:
            orjson.loads(content)
        except orjson.JSONDecodeError as problem:
            raise ToolFailed(f"the content isn't valid JSON: {problem}") from None
    try:
        return content.encode()
    except UnicodeEncodeError:
        raise ToolFailed("the content contains characters that can't be encoded") from None


def _csv(rows: list[list[Any]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(["" if cell is None else cell for cell in row] for row in rows)
    return text.getvalue().encode(errors="replace")


def _workbook(sheets: list[JsonObject]) -> bytes:
    # Imported on demand to keep startup fast.
    import xlsxwriter

    file = io.BytesIO()
    # Text stays text: a cell never becomes a formula or a link because of its first characters.
    options = {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False, "nan_inf_to_errors": True}
    with xlsxwriter.Workbook(file, options) as workbook:
        header = workbook.add_format({"bold": True})
        taken: set[str] = set()
        for number, sheet in enumerate(sheets, 1):
            page = workbook.add_worksheet(_sheet_name(sheet.get("name", ""), number, taken))
            for index, row in enumerate(sheet["rows"]):
                page.write_row(index, 0, row, header if index == 0 else None)
            if sheet["rows"]:
                page.freeze_panes(1, 0)
                page.autofit()
    return file.getvalue()


def _sheet_name(wanted: str, number: int, taken: set[str]) -> str:
    name = wanted.translate(_NOT_IN_SHEET_NAMES).strip()[:_LONGEST_SHEET_NAME] or f"Sheet{number}"
    if name.lower() in taken or name.lower() == "history":
        name = f"{name[:25]} {number}"
    taken.add(name.lower())
    return name
