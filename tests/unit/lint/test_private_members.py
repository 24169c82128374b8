"""Private members of libraries are found in modules that import them; those of the project's own objects are not."""

from pathlib import Path

import pytest

from tools.lint.private_members import findings

PLACE = "libs/eventing/_reader.py"


@pytest.fixture
def found(tmp_path: Path):
    def found(source: str) -> list[str]:
        file = tmp_path / PLACE
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source)
        return [finding.split(": ")[0] for finding in findings(tmp_path)]

    return found


@pytest.mark.parametrize(
    "source",
    [
        "from aiokafka import AIOKafkaConsumer\ndef look(consumer):\n    return consumer._fetcher\n",
        "import psycopg\n\nclient.connection._pipeline = 1\n",
        "\n\nfrom uvicorn.protocols import _http\n",
        "\n\nimport starlette._utils\n",
        "\n\nfrom fastapi.routing import _merge\n",
        "from aiokafka import AIOKafkaConsumer\nclass Mine(AIOKafkaConsumer):\n    def it(self): return self._client\n",
        "from aiokafka.protocol.fetch import FetchRequest\n\nFetchRequest.builds = 1\n",
        "import uvicorn\n\nuvicorn.server.HANDLED = ()\n",
    ],
)
def test_private_members_are_found_where_they_are(found, source: str) -> None:
    assert found(source) == [f"{PLACE}:3"]


@pytest.mark.parametrize(
    "source",
    [
        "class Reader:\n    def look(self, other):\n        self._own = 1\n        return other._own\n",
        "import faust\nclass Reader:\n    def look(self, other):\n        self._own = 1\n        return other._own\n",
        "import faust, os\nos._exit(1)\n",
        "import psycopg\nrow._replace(name=1)\nrow.__class__\n",
        "import psycopg\nfrom libs.eventing import _metrics\n_metrics._count()\n",
        "def look(row): return row._secret\n",
    ],
)
def test_what_is_public_or_the_projects_own_is_left_alone(found, source: str) -> None:
    assert found(source) == []
