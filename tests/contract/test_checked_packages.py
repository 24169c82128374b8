"""The type check covers every package of ours but the tests."""

import tomllib
from pathlib import Path

_ROOT = Path(__file__).parents[2]


def test_every_package_is_type_checked() -> None:
    places = [*_ROOT.glob("*/__init__.py"), *_ROOT.glob("clients/*/*/__init__.py")]
    packages = {place.parent.name for place in places} - {"tests"}
    checked = tomllib.loads((_ROOT / "pyproject.toml").read_text())["tool"]["mypy"]["packages"]

    assert packages == set(checked)
