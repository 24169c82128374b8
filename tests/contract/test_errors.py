"""The catalogue of errors is complete, and written as it should be."""

import ast
import re
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import get_args

import pytest

from libs.contracts.error_catalogue import (
    CANCEL_REASONS,
    DISABLED_REASONS,
    ERRORS,
    FILE_ERRORS,
    FINDINGS,
    CancelReason,
    DisabledReason,
    Explanation,
    FileErrorCode,
)
from libs.contracts.errors import ErrorKind

ROOT = Path(__file__).parents[2]
SENTENCE = re.compile(r"[A-Z`].*[^.]\.")
MOST_WORDS = 20


@pytest.mark.parametrize(
    ("codes", "catalogue"),
    [(ErrorKind, ERRORS), (CancelReason, CANCEL_REASONS), (DisabledReason, DISABLED_REASONS)],
)
def test_every_code_is_explained(codes: type[StrEnum], catalogue: Mapping[str, Explanation]) -> None:
    assert set(catalogue) == set(codes)


def test_every_code_of_a_file_is_explained() -> None:
    assert set(FILE_ERRORS) == set(get_args(FileErrorCode))


@pytest.mark.parametrize("catalogue", [ERRORS, FILE_ERRORS, CANCEL_REASONS, DISABLED_REASONS])
def test_an_explanation_is_two_short_sentences(catalogue: Mapping[str, Explanation]) -> None:
    sentences = [text for each in catalogue.values() for text in (each.meaning, each.advice)]

    wrong = [text for text in sentences if not SENTENCE.fullmatch(text) or len(text.split()) > MOST_WORDS]
    assert wrong == []


# The place of a finding's type in calls of the functions that make one, and its keyword in others.
PLACES = {"found": 1, "error": 1, "warning": 1, "_invalid": 1, "invalid_file": 1, "refuse": 2}
KEYWORDS = {"ErrorDetail": "type", "refused_parameter": "kind", "invalid_field": "kind"}
TYPE = re.compile(r"[a-z]+(_[a-z]+)*")
# Composed of a block's type and a problem, or of the name of a thing; and those that functions pass on.
COMPOSED = {
    *("image_url_address_refused", "image_url_not_supported", "image_not_supported", "image_wrong_kind"),
    *("collection_unknown", "file_unknown"),
}
PASSED_ON = {"company_backlog_full", "invalid", "unsupported_parameter"}


def types_of_findings() -> set[str]:
    files = [file for room in ("libs", "services") for file in (ROOT / room).rglob("*.py")]
    # A2A has findings of its own form.
    nodes = [node for file in files if "a2a" not in file.parts for node in ast.walk(ast.parse(file.read_text()))]
    constants = dict(constant for node in nodes if (constant := constant_of(node)) is not None)
    found = set()
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            name, place = node.func.id, PLACES.get(node.func.id, len(node.args))
            values = node.args[place : place + 1]
            values += [each.value for each in node.keywords if each.arg == KEYWORDS.get(name, "")]
            found |= {type_of(value, constants) for value in values}
    return {text for text in found if TYPE.fullmatch(text)}


def constant_of(node: ast.AST) -> tuple[str, str] | None:
    match node:
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant(value=str(text))):
            return name, text
    return None


def type_of(value: ast.expr, constants: Mapping[str, str]) -> str:
    match value:
        case ast.Constant(value=str(text)):
            return text
        case ast.Name(id=name):
            return constants.get(name, "")
    return ""


def test_every_type_of_a_finding_is_explained() -> None:
    assert types_of_findings() - FINDINGS.keys() - FILE_ERRORS.keys() == set()


def test_every_explained_type_of_a_finding_is_used() -> None:
    of_fields = {"missing", "extra_forbidden", "value_error"}
    assert FINDINGS.keys() - types_of_findings() - COMPOSED - PASSED_ON - of_fields == set()


def test_a_finding_is_explained_in_a_short_sentence() -> None:
    assert [text for text in FINDINGS.values() if not SENTENCE.fullmatch(text) or len(text.split()) > MOST_WORDS] == []
