"""Causes name the type and the place of an exception, and nothing that it says."""

import json

import pytest

from libs.contracts.errors import cause_of
from libs.contracts.messages import PoisonMessage, envelope_from
from libs.contracts.timestamps import parse_time


def test_the_place_is_the_innermost_line_of_the_projects_own() -> None:
    with pytest.raises(ValueError, match="a secret") as failure:
        parse_time("a secret")
    kind, place, *rest = cause_of(failure.value).split(" at ")
    assert (kind, rest) == ("ValueError", [])
    module, _, line = place.partition(":")
    assert (module, line.isdecimal()) == ("libs.contracts.timestamps", True)


def test_a_librarys_line_stands_beside_it() -> None:
    with pytest.raises(ValueError, match="Expecting") as failure:
        json.loads("{")
    assert cause_of(failure.value).startswith("JSONDecodeError at json.decoder:")


def test_so_does_the_exception_that_it_was_raised_from() -> None:
    with pytest.raises(PoisonMessage) as failure:
        envelope_from([("ce_id", b"\xff a secret")])
    told = cause_of(failure.value)
    assert told.startswith("PoisonMessage at libs.contracts.messages:")
    assert ", from UnicodeDecodeError at libs.contracts.messages:" in told
    assert "secret" not in told


def test_one_that_was_never_raised_has_no_place() -> None:
    assert cause_of(KeyError("a secret")) == "KeyError"
