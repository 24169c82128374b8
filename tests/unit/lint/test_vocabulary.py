"""Retired names are found as parts of other names; ordinary words and sentences are not."""

from pathlib import Path

import pytest

from tools.lint.vocabulary import _retired_names

RETIRED = {"Patience": "RetryPolicy", "carry_out": "dispatch", "Keeper": "ProcessSupervisor"}


@pytest.mark.parametrize("name", ["_PATIENCE_SECONDS", "StorePatience", "_carry_out", "CarryOuts", "Keeper"])
def test_retired_names_are_found(name: str) -> None:
    assert list(_retired_names(Path("x.py"), f"{name} = 1\n", RETIRED))


@pytest.mark.parametrize("name", ["lease_keeper", "impatient", "carry", "test_what_they_carry_out"])
def test_ordinary_names_are_left_alone(name: str) -> None:
    assert not list(_retired_names(Path("x.py"), f"{name} = 1\n", RETIRED))
