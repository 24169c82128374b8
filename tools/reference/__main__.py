"""Writes every generated page of the documentation."""

import sys
from pathlib import Path


def main() -> None:
    # Commands of `aes` import the client, which is a separate package.
    sys.path.append(str(Path(__file__).parents[2] / "clients" / "python"))
    from tools.reference.pages import pages

    for file, text in pages().items():
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)


if __name__ == "__main__":
    main()
