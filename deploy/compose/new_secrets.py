"""``python3 deploy/compose/new_secrets.py > .env``: .env.example with secrets of your own."""

import re
import secrets
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / ".env.example"


def main() -> None:
    print(re.sub(r"=TryOutOnly\w*$", lambda _: f"={secrets.token_hex(24)}", EXAMPLE.read_text(), flags=re.MULTILINE))


if __name__ == "__main__":
    main()
