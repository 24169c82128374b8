"""The catalogue of errors: complete, written as it should be, and the page made from it."""

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
    CancelReason,
    DisabledReason,
    Explanation,
    FileErrorCode,
)
from libs.contracts.errors import ErrorKind
from tests.contract.public_api.errors import COMMAND, render

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "errors.md"
SENTENCE = re.compile(r"[A-Z`].*[^.]\.")
MOST_WORDS = 20


def test_the_page_of_errors_is_up_to_date() -> None:
    assert PAGE.read_text() == render(PAGE.read_text()), f"run: {COMMAND}"


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
