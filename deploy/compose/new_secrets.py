"""Prints .env.example with generated secrets.

(set -o noclobber; umask 077; python3 deploy/compose/new_secrets.py > .env)
"""

import base64
import re
import secrets
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / ".env.example"


def main() -> None:
    print(with_new_secrets(EXAMPLE.read_text()), end="")


def with_new_secrets(example: str) -> str:
    return re.sub(r"^(\w+)=TryOutOnly[\w=]*$", lambda line: f"{line[1]}={_new(line[1])}", example, flags=re.MULTILINE)


def _new(variable: str) -> str:
    if variable == "AES_SECRETS_KEY":
        return base64.b64encode(secrets.token_bytes(32)).decode()
    return secrets.token_hex(24)


if __name__ == "__main__":
    main()
