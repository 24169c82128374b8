"""The text of a provider's error, in any of the shapes that there are."""

from typing import Any, Final

from libs.json_text import NotJson, read_json, without_half_pairs

_NAMES: Final = ("message", "detail", "msg", "error", "errors", "text", "title", "type")
"""Members that have the text, the most telling first."""
_DEEPEST: Final = 5
_MOST: Final = 3
_UNSPECIFIED: Final = "unspecified error"


class ErrorInBody(Exception):
    """An error object where an answer was expected. `code` is an HTTP-like status when it is a number."""

    def __init__(self, error: Any) -> None:
        super().__init__(error_message(error))
        self.code = _code(error)


def error_message(error: Any) -> str:
    """The text of a body or its `error` member."""
    return without_half_pairs(_text_of(error)) or _UNSPECIFIED


def error_text(payload: bytes, content_type: str) -> str | None:
    """The text of a response; None for one without any, such as a page of a proxy."""
    try:
        return without_half_pairs(_text_of(read_json(payload))) or None
    except NotJson:
        return payload.decode(errors="replace").strip() or None if content_type == "text/plain" else None


def error_in(body: Any) -> Any:
    """The error that a body of status 200 is in place of an answer; None when it is none."""
    if isinstance(body, list) and body and isinstance(body[0], dict):
        return error_in(body[0])
    if not isinstance(body, dict):
        return None
    if body.get("error"):
        return body["error"]
    says = any(body.get(name) for name in ("message", "detail"))
    return body if says and not body.get("choices") and body.get("object") in (None, "error") else None


def _text_of(value: Any, levels: int = _DEEPEST) -> str:
    if isinstance(value, str):
        return value
    if levels == 0:
        return ""
    if isinstance(value, list):
        return "; ".join(text for item in value[:_MOST] if (text := _text_of(item, levels - 1)))
    if not isinstance(value, dict):
        return ""
    return next((text for name in _NAMES if (text := _text_of(value.get(name), levels - 1))), "")


def _code(error: Any) -> int | None:
    for name in ("code", "status"):
        code = error.get(name) if isinstance(error, dict) else None
        if isinstance(code, str) and len(code) == 3 and code.isascii() and code.isdecimal():
            code = int(code)
        if isinstance(code, int) and not isinstance(code, bool):
            return code
    return None
