"""The pages' modules find what they import from each other."""

from tests.unit.web.conftest import Run


def test_all_pages_are_put_together(run: Run) -> None:
    fetched = "m.PAGES.map(async (page) => [page.path, typeof (await m.fetchPage(page))])"
    pages = run("studio/pages.js", f"await Promise.all({fetched})")
    assert pages[0] == ["", "function"]
    assert {kind for _, kind in pages} == {"function"}
    assert len({path for path, _ in pages}) == len(pages)
