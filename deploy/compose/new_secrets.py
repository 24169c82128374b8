"""``python3 deploy/compose/new_secrets.py > .env``: .env.example with secrets of your own."""

import re
import secrets
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / ".env.example"


def main() -> None:
    print(with_new_secrets(EXAMPLE.read_text()), end="")


def with_new_secrets(example: str) -> str:
    return re.sub(r"=TryOutOnly\w*$", lambda _: f"={secrets.token_hex(24)}", example, flags=re.MULTILINE)


if __name__ == "__main__":
    main()
