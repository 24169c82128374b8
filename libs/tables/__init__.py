"""The tables of CSV, JSON, XLSX and XLS files: encodings, separators, headings, rows."""

from libs.tables._csv import CsvFormat, TableUnreadable, csv_rows, delimiter
from libs.tables._formats import CSV, JSON, Table, WorkbookEncrypted, read_tables, workbook_sheets
from libs.tables._headings import column_name, distinct_names, is_empty, is_heading, text_type

__all__ = [
    "CSV",
    "JSON",
    "CsvFormat",
    "Table",
    "TableUnreadable",
    "WorkbookEncrypted",
    "column_name",
    "csv_rows",
    "delimiter",
    "distinct_names",
    "is_empty",
    "is_heading",
    "read_tables",
    "text_type",
    "workbook_sheets",
]
