"""Limits of companies in the environment."""

import pytest
from pydantic import ValidationError

from libs.quotas import LIMITS, QuotaSettings


def test_every_limit_has_a_generous_default() -> None:
    limits = QuotaSettings().limits_of_companies()
    assert all((limits.of("any", name) or 0) >= 1000 for name in LIMITS)


def test_zero_stands_for_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AES_COMPANY_SESSIONS", "0")
    monkeypatch.setenv("AES_COMPANY_LIMITS", '{"c1": {"files": 0}}')
    limits = QuotaSettings().limits_of_companies()
    assert limits.of("c1", "sessions") is None
    assert limits.of("c1", "files") is None
    assert limits.of("c2", "files") == 1_000_000


def test_a_company_has_limits_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AES_COMPANY_LIMITS", '{"c1": {"sessions": 5}}')
    limits = QuotaSettings().limits_of_companies()
    assert limits.of("c1", "sessions") == 5
    assert limits.of("c1", "files") == limits.of("c2", "files")
    assert limits.of("c2", "sessions") == 1_000_000


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"c1": 5}', '{"c1": {"sesions": 5}}', '{"c1": {"files": -1}}', '{"c1": {"files": true}}']
)
def test_what_is_no_limit_is_refused_at_the_start(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AES_COMPANY_LIMITS", text)
    with pytest.raises(ValidationError, match="AES_COMPANY_LIMITS"):
        QuotaSettings()
