"""Reads and compresses the files of the studio and the widget, and versions them by a hash of all files."""

import gzip
import hashlib
import json
import posixpath
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parent
PREFIX: Final = "/studio"
NO_PAGE: Final = "*"
"""Represents all addresses without a separate page."""
_MEDIA_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_HEAD: Final = "<!-- head: styles and modules, as the gateway knows them -->"
_MAIN: Final = "studio/main.js"
_PAGES: Final = "studio/pages/"
_THEME: Final = "studio/theme.js"
_STYLES: Final = "styles.css"
_IMPORT: Final = re.compile(r"""(\bfrom ?|\bimport\()(["'])([^"']+)\2""")
_WIDGET: Final = "widget/"
_WIDGET_RULES: Final = "widget/rules.js"
_STYLE_ORDER: Final = ("vendor/", "studio/styles/tokens", "studio/styles/base")
_WIDGET_STYLES: Final = (*_STYLE_ORDER[1:], "chat/", _WIDGET)
_COMMENT: Final = re.compile(r"^[ \t]*(?://[^\n]*|/\*\*.*?\*/)$", re.DOTALL | re.MULTILINE)
"""Matches a comment with no code on its lines."""
_CSS_COMMENT: Final = re.compile(r"/\*.*?\*/", re.DOTALL)
_CSS_SPACE: Final = re.compile(r"\s*([{};,]|(?<=\w:)|\s)\s*")


@dataclass(frozen=True, slots=True)
class Asset:
    media_type: str
    content: bytes
    compressed: bytes
    etag: str


@dataclass(frozen=True, slots=True)
class Studio:
    """The studio's documents, security policy and assets. ``assets``: by path below ``/studio/assets/<version>/``.

    ``pages``: the document for each first part of an address. ``widget``: the script that other websites embed.
    """

    pages: Mapping[str, Asset]
    policy: str
    widget: Asset
    assets: Mapping[str, Asset]
    version: str


@cache
def load() -> Studio:
    """Reads and prepares all files. Raises ``OSError`` if the files aren't packaged."""
    files = {
        file.relative_to(FOLDER).as_posix(): file.read_bytes()
        for file in sorted(FOLDER.rglob("*"))
        if file.suffix in _MEDIA_TYPES
    }
    styles = sorted((path for path in files if path.endswith(".css")), key=_style_order)
    files[_WIDGET_RULES] = _module_of(b"\n".join(files[path] for path in styles if path.startswith(_WIDGET_STYLES)))
    files[_STYLES] = b"\n".join(files[path] for path in styles if not path.startswith(_WIDGET))
    files = {path: content for path, content in files.items() if path not in styles}
    files |= _modules(files)
    theme = files.pop(_THEME).decode()
    assets = {path: _asset(content, _MEDIA_TYPES[posixpath.splitext(path)[1]]) for path, content in files.items()}
    version = hashlib.sha256("".join(f"{path}{asset.etag}" for path, asset in assets.items()).encode()).hexdigest()[:16]
    base = f"{PREFIX}/assets/{version}"
    template = (FOLDER / "studio/index.html").read_text()
    loader = (FOLDER / _WIDGET / "loader.js").read_text().replace("{{assets}}", base)
    imports = _imports(files)
    return Studio(
        pages={
            segment: _page(template, base, theme, _modules_of(imports, [_MAIN, *page]))
            for segment, page in _page_modules(files).items()
        },
        policy=_policy(theme),
        widget=_asset(loader.encode(), _MEDIA_TYPES[".js"]),
        assets=assets,
        version=version,
    )


def vendored() -> list[dict[str, Any]]:
    """Returns the manifest's entries for the third-party packages."""
    packages: list[dict[str, Any]] = json.loads((FOLDER / "vendor/manifest.json").read_text())["packages"]
    return packages


def _asset(content: bytes, media_type: str) -> Asset:
    # No timestamp, so that every replica sends the same bytes.
    compressed = gzip.compress(content, compresslevel=9, mtime=0)
    return Asset(media_type, content, compressed, f'"{hashlib.sha256(content).hexdigest()[:32]}"')


def _module_of(rules: bytes) -> bytes:
    """Converts style sheets into a module, because a page's policy may forbid the widget to load or inline styles."""
    text = _CSS_SPACE.sub(r"\1", _CSS_COMMENT.sub("", rules.decode())).strip()
    return f"export const RULES = {json.dumps(text, ensure_ascii=False)};\n".encode()


def _modules(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Replaces package names in imports with paths, because pages have no import map, and removes comments.

    Keeps line numbers, so that errors in the browser match the source.
    """
    packages = {name: f"vendor/{path}" for package in vendored() for name, path in package["imports"].items()}

    def resolve(path: str, found: re.Match[str]) -> str:
        before, quote, name = found.groups()
        if name not in packages:
            return found[0]
        relative = posixpath.relpath(packages[name], posixpath.dirname(path) or ".")
        return f"{before}{quote}{relative if relative.startswith('.') else f'./{relative}'}{quote}"

    found = {}
    for path, content in files.items():
        if path.endswith((".js", ".mjs")):
            text = content.decode()
            if not path.startswith("vendor/"):
                text = _COMMENT.sub(lambda comment: "\n" * comment[0].count("\n"), text)
            found[path] = _IMPORT.sub(partial(resolve, path), text).encode()
    return found


def _page_modules(files: Mapping[str, bytes]) -> dict[str, list[str]]:
    """Returns the modules of each page, by the first part of its address: `pages/chat.js` for `chat/…`."""
    named = {posixpath.splitext(path)[0].removeprefix(_PAGES): [path] for path in files if path.startswith(_PAGES)}
    return {**named, "": named["overview"], NO_PAGE: []}


def _imports(files: Mapping[str, bytes]) -> dict[str, list[str]]:
    """Returns each module's static imports."""
    found = {}
    for path, content in files.items():
        if path.endswith((".js", ".mjs")):
            names = [name for before, _, name in _IMPORT.findall(content.decode()) if before.startswith("from")]
            paths = (posixpath.normpath(posixpath.join(posixpath.dirname(path), name)) for name in names)
            found[path] = [imported for imported in paths if imported in files]
    return found


def _modules_of(imports: Mapping[str, Sequence[str]], roots: Sequence[str]) -> list[str]:
    """Returns the modules and everything that they import, directly or indirectly, nearest first."""
    found = list(roots)
    for path in found:
        found += [imported for imported in dict.fromkeys(imports[path]) if imported not in found]
    return found


def _page(template: str, base: str, theme: str, modules: Sequence[str]) -> Asset:
    """Returns the document. An inline script sets the theme, so that the first paint waits only for the styles.

    Preloads the modules, because a browser discovers a module only after loading the importing module.
    """
    head = (
        f"<script>{theme}</script>",
        f'<link rel="stylesheet" href="{base}/{_STYLES}">',
        *(f'<link rel="modulepreload" href="{base}/{path}">' for path in modules),
        f'<script type="module" src="{base}/{_MAIN}"></script>',
    )
    text = template.replace(_HEAD, "\n".join(head)).replace("{{assets}}", base)
    return _asset(text.encode(), "text/html; charset=utf-8")


def _style_order(path: str) -> tuple[int, str]:
    """Returns a style sheet's sort key. Later rules win, so styles of parts come last."""
    rank = next((rank for rank, start in enumerate(_STYLE_ORDER) if path.startswith(start)), len(_STYLE_ORDER))
    return rank, path


def _policy(theme: str) -> str:
    """Returns a security policy that allows only files from this origin, and the inline script by its hash."""
    allowed = b64encode(hashlib.sha256(theme.encode()).digest()).decode()
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src 'self' 'sha256-{allowed}'",
            "style-src 'self'",
            "img-src 'self' blob: data:",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )
