"""The catalogue of errors is complete, and written as it should be."""

import re
from collections.abc import Mapping
from enum import StrEnum
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
