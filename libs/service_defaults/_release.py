"""The release, as in ``pyproject.toml``, which images don't contain."""

from typing import Final

RELEASE: Final = "0.1.0"
