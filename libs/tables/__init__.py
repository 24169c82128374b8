"""The tables of CSV, JSON, XLSX and XLS files: encodings, separators, headings, rows."""

from libs.tables._confined import ProcessKilled, answer_job, run_confined
from libs.tables._csv import CsvFormat, TableUnreadable, csv_rows, delimiter
from libs.tables._formats import CSV, JSON, Table, WorkbookEncrypted, read_tables, workbook_sheets
from libs.tables._headings import column_name, distinct_names, is_empty, is_heading, text_type

__all__ = [
    "CSV",
    "JSON",
    "CsvFormat",
    "ProcessKilled",
    "Table",
    "TableUnreadable",
    "WorkbookEncrypted",
    "answer_job",
    "column_name",
    "csv_rows",
    "delimiter",
    "distinct_names",
    "is_empty",
    "is_heading",
    "read_tables",
    "run_confined",
    "text_type",
    "workbook_sheets",
]
