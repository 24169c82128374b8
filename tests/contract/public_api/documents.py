"""Writes the OpenAPI and AsyncAPI documents: `python -m tests.contract.public_api.documents FOLDER`.

For comparing them before and after a change that is meant to leave them as they are.
"""

import asyncio
import json
import sys
from pathlib import Path

from tests.support.gateway import gateway

DOCUMENTS = ("openapi.json", "asyncapi.json")


async def served() -> dict[str, str]:
    async with gateway() as public:
        answers = {name: (await public.client.get(f"/{name}")).raise_for_status() for name in DOCUMENTS}
    return {name: json.dumps(each.json(), indent=1, ensure_ascii=False) + "\n" for name, each in answers.items()}


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, document in asyncio.run(served()).items():
        (folder / name).write_text(document)
