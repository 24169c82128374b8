"""The release that this process is of; a test holds it to that of ``pyproject.toml``, which images do not contain."""

from typing import Final

RELEASE: Final = "0.1.0"
