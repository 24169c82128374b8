"""The release of this process. A test compares it with ``pyproject.toml``, which images don't contain."""

from typing import Final

RELEASE: Final = "0.1.0"
