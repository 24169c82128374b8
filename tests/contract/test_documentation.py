"""Links of the documentation lead somewhere, and the code that it quotes is the code that runs."""

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tools.reference.markdown import by_hand

ROOT = Path(__file__).parents[2]
READMES = [page for room in ("deploy", "libs", "services") for page in sorted((ROOT / room).rglob("README.md"))]
ROOMS = ("benchmarks", "clients", "deploy", "docs", "examples", "libs", "services", "tests", "tools")
PAGES = [ROOT / "README.md", *sorted(page for room in ROOMS for page in (ROOT / room).rglob("*.md"))]
LINK = re.compile(r"\]\(([^)\s]+)\)")
MADE = re.compile(r"^\W*(?:[Mm]ade|[Gg]enerated) (?:by|from|of) .*(?:\.py|python -m)", re.MULTILINE)
FILE = re.compile(r"`([\w./-]+\.(?:lock|md|py|sh|toml|txt|yaml|yml))`")
SAMPLE = ROOT / "tests" / "support" / "sample_owner"
MOST_WORDS = 40_000


def links(page: Path) -> list[str]:
    return [target for target in LINK.findall(page.read_text()) if "://" not in target]


def anchors(page: Path) -> set[str]:
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in links(page):
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{target} does not exist"
        if anchor:
            assert anchor in anchors(file), f"{target}: no such heading"


def test_every_page_is_reachable_from_the_index() -> None:
    index = ROOT / "docs" / "README.md"
    reached: set[Path] = set()
    waiting = [index]
    while waiting:
        page = waiting.pop()
        if page not in reached:
            reached.add(page)
            targets = [(page.parent / target.partition("#")[0]).resolve() for target in links(page)]
            waiting += [target for target in targets if target.suffix == ".md" and target.is_relative_to(index.parent)]
    assert {*index.parent.rglob("*.md")} - reached == set()


def test_pages_written_by_hand_stay_short_together() -> None:
    pages = [page for page in PAGES if page.is_relative_to(ROOT / "docs") and "decisions" not in page.parts]
    words = sum(len(by_hand(page.read_text()).split()) for page in (ROOT / "README.md", *pages))
    assert words <= MOST_WORDS, "say it shorter, or delete what another page says"


@pytest.mark.parametrize("page", READMES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_a_folder_is_described_by_exist(page: Path) -> None:
    """Named from the project's root, or by the last parts of a path below the folder."""
    below = [f"/{file.relative_to(page.parent)}" for file in page.parent.rglob("*")]
    for name in FILE.findall(page.read_text()):
        known = (ROOT / name).exists() or any(file.endswith(f"/{name}") for file in below)
        assert known, f"{name} does not exist"


def test_the_guide_quotes_the_sample_owner_as_it_is() -> None:
    code = "\n".join(file.read_text() for file in sorted(SAMPLE.rglob("*.py")))
    guide = (ROOT / "docs" / "contributing" / "add-a-service.md").read_text()
    snippets = re.findall(r"^```python\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)
    quoted = [snippet for snippet in snippets if "__main__" not in snippet]

    assert len(quoted) >= 5
    for snippet in quoted:
        assert snippet.strip() in code, f"not in the sample owner:\n{snippet}"


def test_every_decision_has_its_parts_and_a_place_in_the_list() -> None:
    folder = ROOT / "docs" / "decisions"
    decisions = sorted(folder.glob("[0-9]*.md"))
    listed = re.findall(r"^(\d+)\. \[(.+)\]\((.+)\)$", (folder / "README.md").read_text(), re.MULTILINE)
    assert [name for _, _, name in listed] == [decision.name for decision in decisions]
    for decision, (number, title, name) in zip(decisions, listed, strict=True):
        text = decision.read_text()
        assert re.findall(r"^\*\*(.+):\*\*", text, re.MULTILINE) == ["Because", "We", "So", "Not"], name
        assert text.startswith(f"# {number}. {title}\n"), name
        assert name.startswith(f"{int(number):04}-"), name
        assert len(text.splitlines()) < 30, f"{name} is longer than half a page"


def test_what_programs_have_written_is_marked_for_those_who_review() -> None:
    lines = (ROOT / ".gitattributes").read_text().splitlines()
    marked = [line.split()[0] for line in lines if "linguist-generated" in line.split()]
    texts = [file for room in ("clients", "deploy", "docs") for file in (ROOT / room).rglob("*") if file.is_file()]
    made = [file for file in texts if file.suffix in {".md", ".py", ".yaml"} and MADE.search(file.read_text())]
    assert made
    for file in made:
        assert any(fnmatch(str(file.relative_to(ROOT)), pattern) for pattern in marked), file
