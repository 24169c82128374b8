import re
from itertools import islice

import pytest

from libs.contracts.identifiers import is_agent_key
from services.registry.domain.agent_key import candidates, slug


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Support Assistant", "support-assistant"),
        ("  Support -- Assistant!  ", "support-assistant"),
        ("Über Straße", "uber-strasse"),
        ("Łódź & Ørsted", "lodz-orsted"),
        ("Помощник", "pomoshchnik"),
        ("東京 アシスタント", "dongjing-ashisutanto"),
        ("Anna's helper", "annas-helper"),
        ("🤖", "robot"),
        ("!!!", "agent"),
        ("\u200b", "agent"),
        ("v2.0", "v2-0"),
    ],
)
def test_slug(name: str, expected: str) -> None:
    assert slug(name) == expected
    assert is_agent_key(expected)


@pytest.mark.parametrize("name", ["x" * 200, "word " * 40, "й" * 200, "ab-" * 80])
def test_a_slug_is_short_and_fit_for_a_url(name: str) -> None:
    assert len(slug(name)) <= 60
    assert all(is_agent_key(key) for key in islice(candidates(name), 20))


def test_every_key_has_a_suffix_of_its_own_also_the_first() -> None:
    keys = list(islice(candidates("Support"), 20))
    assert len(set(keys)) == len(keys)
    assert all(re.fullmatch(r"support-[a-z0-9]{6}", key) for key in keys)
