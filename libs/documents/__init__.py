"""Reads text and tables from text, CSV, JSON, XLSX and XLS files."""

from libs.documents._csv import CsvDialect, CsvFormat
from libs.documents._encodings import decode
from libs.documents._encryption import check_encrypted
from libs.documents._errors import DocumentEncrypted, DocumentUnreadable
from libs.documents._formats import CSV, JSON, Table, read_tables, workbook_sheets
from libs.documents._headings import cell_text, column_name, distinct_names, is_empty, is_heading, text_type
from libs.documents._json import read_json

__all__ = [
    "CSV",
    "JSON",
    "CsvDialect",
    "CsvFormat",
    "DocumentEncrypted",
    "DocumentUnreadable",
    "Table",
    "cell_text",
    "check_encrypted",
    "column_name",
    "decode",
    "distinct_names",
    "is_empty",
    "is_heading",
    "read_json",
    "read_tables",
    "text_type",
    "workbook_sheets",
]
