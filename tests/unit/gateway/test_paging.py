"""Lists by cursor: ``after`` takes what ``next`` said."""

import pytest

from tests.support.gateway import Gateway

LONG = {
    "/sessions/": ("runtime", "/internal/sessions"),
    "/actions/": ("runtime", "/internal/actions"),
    "/files/": ("ingestion", "/internal/files"),
    "/collections/": ("ingestion", "/internal/collections"),
    "/knowledge-bases/": ("ingestion", "/internal/knowledge-bases"),
    "/budgets/": ("runtime", "/internal/budgets"),
    "/toolsets/": ("registry", "/internal/company/toolsets"),
    "/secrets/": ("registry", "/internal/company/secrets"),
}
SHORT = ["/models/", "/tools/"]


@pytest.mark.parametrize("path", LONG)
async def test_a_cursor_goes_to_the_owner_of_the_list(public: Gateway, path: str) -> None:
    owner, place = LONG[path]
    public.upstreams.answers["GET", owner, place] = (200, {})
    assert (await public.client.get(path, params={"after": "some-cursor", "limit": 7})).status_code == 200
    assert public.upstreams.asked == [("GET", owner, place, {"limit": 7, "offset": 0, "cursor": "some-cursor"})]


@pytest.mark.parametrize("path", SHORT)
async def test_short_lists_have_no_cursors(public: Gateway, path: str) -> None:
    reply = await public.client.get(path, params={"after": "some-cursor"})
    assert (reply.status_code, reply.json()["error"]["type"]) == (422, "validation_error")


@pytest.mark.parametrize("text", ["", "x" * 1001])
async def test_a_text_that_can_be_no_cursor_is_refused(public: Gateway, text: str) -> None:
    reply = await public.client.get("/sessions/", params={"after": text})
    assert (reply.status_code, reply.json()["error"]["details"][0]["loc"]) == (422, ["after"])


async def test_keys_are_read_page_by_page(public: Gateway) -> None:
    for _ in range(4):
        public.keys.issue()
    found: list[str] = []
    params: dict[str, str | int] = {"limit": 2}
    while True:
        page = (await public.client.get("/api-keys/", params=params)).json()
        found += [key["id"] for key in page["api_keys"]]
        assert (page["total"], page["total_is_exact"], page["has_more"]) == (5, True, page["next"] is not None)
        if page["next"] is None:
            break
        params["after"] = page["next"]
    assert len(found) == len(set(found)) == 5
