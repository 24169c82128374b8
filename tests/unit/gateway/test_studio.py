"""The studio and the chat for web pages are served to everybody, each file for ever under the name of its version."""

import gzip
import hashlib
import re
from base64 import b64encode
from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount, Route

from services.gateway.entrypoints.web.application import StudioApplication, widget_script
from web.assets import FOLDER, load

MOST_BYTES = 300_000
MOST_BYTES_OF_THE_WIDGET = 45_000
MOST_FILES_OF_A_PAGE = 60
MOST_BYTES_OF_A_PAGE = 100_000
PAGES = [path.stem for path in (FOLDER / "studio/pages").iterdir()]


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    mounted = Starlette(routes=[Route("/widget.js", widget_script), Mount("/", StudioApplication())])
    transport = httpx.ASGITransport(mounted)
    async with httpx.AsyncClient(transport=transport, base_url="http://studio.test") as opened:
        yield opened


@pytest.mark.parametrize("path", ["/studio/", "/studio/timeline/", "/studio/chat/01a20470/", "/studio/nothing/here/"])
async def test_every_address_survives_a_reload(client: httpx.AsyncClient, path: str) -> None:
    reply = await client.get(path)
    assert (reply.status_code, reply.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert reply.headers["cache-control"] == "no-cache"


async def test_the_address_without_a_slash_leads_to_the_page(client: httpx.AsyncClient) -> None:
    reply = await client.get("/studio")
    assert (reply.status_code, reply.headers["location"]) == (307, "/studio/")


async def test_the_policy_allows_no_script_but_files_and_those_of_the_page(client: httpx.AsyncClient) -> None:
    page = await client.get("/studio/")
    policy = dict(part.split(" ", 1) for part in page.headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    within = re.findall(r"<script>(.*?)</script>", page.text, re.DOTALL)
    hashes = [b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in within]
    assert policy["script-src"] == " ".join(["'self'", *(f"'sha256-{each}'" for each in hashes)])
    assert (policy["style-src"], policy["connect-src"], policy["frame-ancestors"]) == ("'self'", "'self'", "'none'")
    assert (policy["require-trusted-types-for"], policy["trusted-types"]) == ("'script'", "'none'")
    assert not [value for value in policy.values() if "unsafe" in value or "http" in value or "*" in value]


async def test_everything_that_the_page_names_is_there_and_kept_for_ever(client: httpx.AsyncClient) -> None:
    page = (await client.get("/studio/")).text
    named = set(re.findall(r'"(/studio/assets/[^"]+)"', page))
    assert {"main.js", "preact.mjs", "overview.js", "styles.css"} <= {path.rsplit("/", 1)[1] for path in named}
    for path in named:
        reply = await client.get(path)
        assert reply.status_code == 200, path
        assert reply.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert reply.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("name", ["", "nothing", *PAGES])
async def test_a_page_names_all_that_it_begins_with_and_little_else(client: httpx.AsyncClient, name: str) -> None:
    """A browser that is far away waits for each file that is named late, and for each that is named too much."""
    page = await client.get(f"/studio/{name}/" if name else "/studio/", headers={"accept-encoding": "gzip"})
    named = set(re.findall(r'(?:href|src)="([^"]+)"', page.text))
    begins = {"/studio/main.js", *([f"/studio/pages/{name or 'overview'}.js"] if name != "nothing" else [])}
    modules = {path for path in named if not path.endswith((".css", ".svg"))}
    assert begins <= {path.removeprefix(f"/studio/assets/{load().version}") for path in modules}
    assert modules == await modules_from(client, modules), "nothing is found only when it is imported"
    sizes = [
        int((await client.get(path, headers={"accept-encoding": "gzip"})).headers["content-length"]) for path in named
    ]
    assert len(named) <= MOST_FILES_OF_A_PAGE
    assert sum(sizes) <= MOST_BYTES_OF_A_PAGE


async def test_the_page_comes_from_nowhere_else(client: httpx.AsyncClient) -> None:
    page = (await client.get("/studio/")).text
    assert not re.findall(r"https?://", page)


async def test_a_file_is_sent_compressed_to_who_takes_it_and_not_again_to_who_has_it(client: httpx.AsyncClient) -> None:
    path = f"/studio/assets/{load().version}/studio/main.js"
    plain = await client.get(path, headers={"accept-encoding": "identity"})
    packed = await client.get(path, headers={"accept-encoding": "br, gzip"})
    assert "content-encoding" not in plain.headers
    assert (packed.headers["content-encoding"], packed.content) == ("gzip", plain.content)
    assert int(packed.headers["content-length"]) < len(plain.content)
    again = await client.get("/studio/", headers={"if-none-match": (await client.get("/studio/")).headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


async def test_a_file_of_another_release_is_served_and_not_kept(client: httpx.AsyncClient) -> None:
    """Two replicas may be of two releases while one is replaced."""
    reply = await client.get("/studio/assets/0123456789abcdef/studio/main.js")
    assert (reply.status_code, reply.headers["cache-control"]) == (200, "no-store")


@pytest.mark.parametrize(
    "path",
    ["studio/nothing.js", "studio/index.html", "vendor/manifest.json", "../bootstrap.py", "%2e%2e/bootstrap.py", ""],
)
async def test_nothing_else_is_served(client: httpx.AsyncClient, path: str) -> None:
    reply = await client.get(f"/studio/assets/{load().version}/{path}")
    assert (reply.status_code, reply.headers["content-type"]) == (404, "application/json")
    assert reply.json()["error"]["type"] == "not_found_error"


async def test_it_takes_no_writes(client: httpx.AsyncClient) -> None:
    assert (await client.post("/studio/")).status_code == 405
    assert (await client.head("/studio/")).status_code == 200


async def test_pages_elsewhere_may_load_the_chat_but_not_frame_the_studio(client: httpx.AsyncClient) -> None:
    script = await client.get("/widget.js")
    assert (script.headers["content-type"], script.headers["cache-control"]) == (
        "text/javascript; charset=utf-8",
        "no-cache",
    )
    for path in ("/widget.js", *await modules_of_the_widget(client)):
        reply = await client.get(path)
        assert reply.status_code == 200, path
        assert reply.headers["access-control-allow-origin"] == "*"
        assert reply.headers["cross-origin-resource-policy"] == "cross-origin"
    page = await client.get("/studio/")
    assert "access-control-allow-origin" not in page.headers
    assert page.headers["cross-origin-resource-policy"] == "same-origin"


async def test_the_chat_is_small_and_needs_no_names_of_the_page(client: httpx.AsyncClient) -> None:
    packed = {"accept-encoding": "gzip"}
    modules = await modules_of_the_widget(client)
    sizes = [int((await client.get(path, headers=packed)).headers["content-length"]) for path in modules]
    assert len(sizes) > 5
    assert sum(sizes) < MOST_BYTES_OF_THE_WIDGET
    page = (await client.get("/studio/")).text
    assert "/widget/" not in page, "the studio does not load it"


async def modules_of_the_widget(client: httpx.AsyncClient) -> set[str]:
    return await modules_from(client, {"/widget.js"}) - {"/widget.js"}


async def modules_from(client: httpx.AsyncClient, roots: set[str]) -> set[str]:
    """The modules, what they import, and so on."""
    found, waiting = set(roots), list(roots)
    while waiting:
        path = waiting.pop()
        text = (await client.get(path)).text
        for name in re.findall(r"""(?:\bfrom ?|\bimport\((?:new URL\()?)["']([^"']+)["']""", text):
            # Any other name would need an import map of the page.
            assert name.startswith((".", "/")), f"{path}: {name}"
        for name in re.findall(r"""(?:\bfrom ?|\bimport\(new URL\()["']([^"']+)["']""", text):
            module = str(httpx.URL(f"http://studio.test{path}").join(name).path)
            if module not in found:
                found.add(module)
                waiting.append(module)
    return found


def test_a_module_is_its_source_line_by_line_but_for_comments_and_names_of_packages() -> None:
    checked = 0
    for file in FOLDER.rglob("*.js"):
        asset = load().assets.get(path := file.relative_to(FOLDER).as_posix())
        if asset is None or path.startswith("vendor/"):
            continue
        source, sent = file.read_text().split("\n"), asset.content.decode().split("\n")
        assert len(source) == len(sent), path
        for before, after in zip(source, sent, strict=True):
            is_comment = before.strip().startswith(("//", "/*", "*")) and not after
            assert is_comment or re.sub('"[^"]*"', "", before) == re.sub('"[^"]*"', "", after), f"{path}: {before}"
        checked += 1
    assert checked > 50


def test_all_files_together_are_small() -> None:
    assert sum(len(asset.compressed) for asset in load().assets.values()) < MOST_BYTES


def test_a_compressed_file_is_the_same_on_every_replica() -> None:
    for asset in load().assets.values():
        assert gzip.decompress(asset.compressed) == asset.content
        assert asset.compressed[4:8] == bytes(4), "a time in it"
