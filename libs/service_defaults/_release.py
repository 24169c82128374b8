"""The release number, which is the same as in ``pyproject.toml``. Images don't contain that file."""

from typing import Final

RELEASE: Final = "0.1.0"
