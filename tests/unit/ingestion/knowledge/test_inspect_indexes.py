"""An index counts as lost when an engine that answers does not have it, twice in a row."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from services.ingestion.domain.artifacts import IndexRef
from services.ingestion.domain.engines import EngineUnavailable
from services.ingestion.use_cases.index_care import InspectArtifactIndexes

HERE, GONE = IndexRef("pgvector", "here"), IndexRef("pgvector", "gone")


@dataclass
class Documents:
    """Two indexes with three documents each, and one of an engine that is not there any more."""

    given_up: list[IndexRef] = field(default_factory=list)

    async def in_use(self) -> Sequence[IndexRef]:
        return [HERE, GONE, IndexRef("weaviate", "elsewhere")]

    async def requeue_lost(self, index: IndexRef) -> int:
        self.given_up.append(index)
        return 3


@dataclass
class Engine:
    indexes: set[str]
    down: bool = False

    async def existing(self, index_ids: Sequence[str]) -> set[str]:
        if self.down:
            raise EngineUnavailable("down")
        return self.indexes.intersection(index_ids)


@pytest.fixture
def engine() -> Engine:
    return Engine({"here"})


async def test_what_two_looks_running_do_not_find_is_lost(engine: Engine) -> None:
    documents = Documents()
    inspect = InspectArtifactIndexes(documents, {"pgvector": engine})
    assert [await inspect() for _ in range(2)] == [0, 3]
    assert documents.given_up == [GONE]


async def test_an_engine_that_does_not_answer_has_lost_nothing(engine: Engine) -> None:
    documents = Documents()
    inspect = InspectArtifactIndexes(documents, {"pgvector": engine})
    for engine.down in (False, True, False, True):
        assert await inspect() == 0
    assert documents.given_up == []


async def test_an_index_that_is_there_again_is_not_lost(engine: Engine) -> None:
    documents = Documents()
    inspect = InspectArtifactIndexes(documents, {"pgvector": engine})
    assert await inspect() == 0
    engine.indexes.add("gone")
    assert await inspect() == 0
    engine.indexes.remove("gone")
    assert await inspect() == 0
    assert documents.given_up == []
