import json
from pathlib import Path

from tests.contract.public_api.documents import served
from tests.contract.public_api.routes import render

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "routes.md"
COMMAND = "python -m tests.contract.public_api.routes docs/reference/routes.md"


async def test_the_list_of_routes_is_up_to_date() -> None:
    document = json.loads((await served())["openapi.json"])

    assert PAGE.read_text() == render(document), f"run: {COMMAND}"
