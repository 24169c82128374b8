"""The files of the studio and of the chat for web pages: read once, compressed once, named by one hash over all."""

import gzip
import hashlib
import json
from base64 import b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parents[3] / "studio"
PREFIX: Final = "/studio"
_MEDIA_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_HEAD: Final = "<!-- head: styles, import map and modules, as the gateway knows them -->"
_WIDGET: Final = "widget/"
_STYLE_ORDER: Final = ("vendor/", "styles/tokens", "styles/base")


@dataclass(frozen=True, slots=True)
class Asset:
    media_type: str
    content: bytes
    compressed: bytes
    etag: str


@dataclass(frozen=True, slots=True)
class Studio:
    """The page, the policy that it is sent with, and its assets by their path below ``/studio/assets/<version>/``.

    ``widget``: the script that other pages name; it loads the rest of the chat from the assets.
    """

    page: Asset
    policy: str
    widget: Asset
    assets: Mapping[str, Asset]
    version: str


@cache
def load() -> Studio:
    """Reads the studio. Raises ``OSError`` when its files were not packaged."""
    assets = {
        file.relative_to(FOLDER).as_posix(): _asset(file.read_bytes(), _MEDIA_TYPES[file.suffix])
        for file in sorted(FOLDER.rglob("*"))
        if file.suffix in _MEDIA_TYPES
    }
    version = hashlib.sha256("".join(f"{path}{asset.etag}" for path, asset in assets.items()).encode()).hexdigest()[:16]
    base = f"{PREFIX}/assets/{version}"
    import_map = _import_map(base)
    template = (FOLDER / "index.html").read_text()
    head = _head(base, assets, import_map)
    page = template.replace(_HEAD, head).replace("{{assets}}", base)
    loader = (FOLDER / _WIDGET / "loader.js").read_text().replace("{{assets}}", base)
    return Studio(
        page=_asset(page.encode(), "text/html; charset=utf-8"),
        policy=_policy(import_map),
        widget=_asset(loader.encode(), _MEDIA_TYPES[".js"]),
        assets=assets,
        version=version,
    )


def vendored() -> list[dict[str, Any]]:
    """The packages of others: name, version, licence, files with their hashes, and what they are imported as."""
    packages: list[dict[str, Any]] = json.loads((FOLDER / "vendor/manifest.json").read_text())["packages"]
    return packages


def _asset(content: bytes, media_type: str) -> Asset:
    # Without a time in it, so that every replica sends the same bytes.
    compressed = gzip.compress(content, compresslevel=9, mtime=0)
    return Asset(media_type, content, compressed, f'"{hashlib.sha256(content).hexdigest()[:32]}"')


def _import_map(base: str) -> str:
    names = {name: f"{base}/vendor/{path}" for package in vendored() for name, path in package["imports"].items()}
    return json.dumps({"imports": names}, separators=(",", ":"))


def _head(base: str, paths: Iterable[str], import_map: str) -> str:
    """Names every module, because a browser would find each only after the one that imports it."""
    styles = sorted((path for path in paths if path.endswith(".css")), key=_style_order)
    modules = [path for path in paths if path.endswith((".js", ".mjs")) and path != "app/theme.js"]
    modules = [path for path in modules if not path.startswith(_WIDGET)]
    return "\n".join(
        (
            f'<script src="{base}/app/theme.js"></script>',
            *(f'<link rel="stylesheet" href="{base}/{path}">' for path in styles),
            f'<script type="importmap">{import_map}</script>',
            *(f'<link rel="modulepreload" href="{base}/{path}">' for path in modules),
            f'<script type="module" src="{base}/app/main.js"></script>',
        )
    )


def _style_order(path: str) -> tuple[int, str]:
    """Later rules win: what is vendored first, then names of colours and sizes, the elements, the parts."""
    rank = next((rank for rank, start in enumerate(_STYLE_ORDER) if path.startswith(start)), len(_STYLE_ORDER))
    return rank, path


def _policy(import_map: str) -> str:
    """Nothing but files of this address; the import map is the only script within the page, named by its hash."""
    map_hash = b64encode(hashlib.sha256(import_map.encode()).digest()).decode()
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src 'self' 'sha256-{map_hash}'",
            "style-src 'self'",
            "img-src 'self' blob: data:",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types dompurify",
        )
    )
