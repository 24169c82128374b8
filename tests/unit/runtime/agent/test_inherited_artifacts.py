"""Files of the sessions that a session was forked from."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from libs.contracts.errors import Conflict, NotFound
from services.runtime.use_cases.agent.inherited_artifacts import InheritedArtifacts
from tests.support.agent_fakes import CALLER
from tests.support.artifact_fakes import FakeArtifacts


class Lineage:
    def __init__(self, **lineages: Sequence[str]) -> None:
        self._lineages = lineages
        self.asked = 0

    async def lineage(self, session_id: str) -> Sequence[str]:
        self.asked += 1
        return self._lineages.get(session_id, ())


async def test_what_the_session_has_itself_is_looked_for_nowhere_else() -> None:
    artifacts, lineage = FakeArtifacts(), Lineage()
    own = artifacts.put("own.txt", "A line.", session_id="fork")
    inherited = InheritedArtifacts(artifacts, lineage)
    assert await inherited.get("fork", own.artifact_id, CALLER) == own
    assert (await inherited.text("fork", own.artifact_id, CALLER, offset=0, limit=9)).text == "A line."
    assert lineage.asked == 0


async def test_every_way_to_a_file_finds_those_of_all_sessions_before(tmp_path: Path) -> None:
    artifacts = FakeArtifacts()
    first = artifacts.put("first.txt", "The ferry leaves.", session_id="first")
    second = artifacts.put("second.txt", "The ferry arrives.", session_id="second")
    foreign = artifacts.put("foreign.txt", "The ferry sinks.", session_id="elsewhere")
    inherited = InheritedArtifacts(artifacts, Lineage(fork=("second", "first")))
    for each in (first, second):
        assert await inherited.get("fork", each.artifact_id, CALLER) == each
        assert await inherited.by_url("fork", each.url, CALLER) == each
        assert await inherited.content("fork", each.artifact_id, CALLER)
    await inherited.save("fork", first.artifact_id, CALLER, tmp_path / "file")
    assert (tmp_path / "file").read_text() == "The ferry leaves."
    assert [each.name for each in await inherited.all("fork", CALLER)] == ["second.txt", "first.txt"]
    found = await inherited.search("fork", "ferry", CALLER, artifact_ids=None, top_k=5)
    assert [each.passage for each in found] == ["The ferry arrives.", "The ferry leaves."]
    [best] = await inherited.search("fork", "ferry", CALLER, artifact_ids=[first.artifact_id], top_k=5)
    assert best.artifact_id == first.artifact_id
    with pytest.raises(NotFound):
        await inherited.get("fork", foreign.artifact_id, CALLER)


async def test_a_session_before_that_is_gone_is_passed_over_and_other_errors_are_told() -> None:
    class Gone(FakeArtifacts):
        async def all(self, session_id: str, caller):  # type: ignore[no-untyped-def]
            if session_id == "gone":
                raise NotFound("There is no session with this ID.")
            return await super().all(session_id, caller)

    artifacts = Gone()
    kept = artifacts.put("kept.txt", "A line.", session_id="first", status="pending")
    inherited = InheritedArtifacts(artifacts, Lineage(fork=("gone", "first")))
    assert await inherited.all("fork", CALLER) == [kept]
    with pytest.raises(Conflict):
        await inherited.text("fork", kept.artifact_id, CALLER, offset=0, limit=9)


async def test_what_an_agent_makes_belongs_to_its_own_session() -> None:
    artifacts = FakeArtifacts()
    inherited = InheritedArtifacts(artifacts, Lineage(fork=("first",)))
    made = await inherited.create("fork", CALLER, name="a.txt", key="k", content=b"x")
    assert artifacts.stored[made.artifact_id].session_id == "fork"
