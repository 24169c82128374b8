"""Bodies that are refused, by what is wrong with them."""

from itertools import pairwise
from typing import Any

JSON, YAML = "application/json", "application/yaml"
BAD, INVALID = (400, "invalid_request_error"), (422, "validation_error")
Fault = tuple[int, str]
DEEP = 5_000


def nested(opening: str, closing: str, inside: str = "1") -> str:
    return opening * DEEP + inside + closing * DEEP


def bomb() -> str:
    """A billion texts in nine lines."""
    lines = ['a: &a ["x", "x", "x", "x", "x", "x", "x", "x", "x", "x"]']
    names = "abcdefghij"
    for earlier, name in pairwise(names):
        lines.append(f"{name}: &{name} [{', '.join([f'*{earlier}'] * 10)}]")
    return "\n".join([*lines, "content: *j"])


# Bodies of an execute request, whose only good form is {"content": …}.
MALFORMED_JSON: dict[str, tuple[bytes, Fault]] = {
    "empty": (b"", BAD),
    "blank": (b"   ", BAD),
    "cut": (b'{"content": "hi"', BAD),
    "single quotes": (b"{'content': 'hi'}", BAD),
    "trailing comma": (b'{"content": "hi",}', BAD),
    "two documents": (b'{"content": "hi"}{"content": "ho"}', BAD),
    "a comment": (b'{"content": "hi"} // yes', BAD),
    "NaN": (b'{"content": NaN}', BAD),
    "Infinity": (b'{"content": -Infinity}', BAD),
    "a control character": (b'{"content": "a\x01b"}', BAD),
    "a raw NUL": (b'{"content": "a\x00b"}', BAD),
    "an escaped NUL": (b'{"content": "a\\u0000b"}', INVALID),
    "NUL in a name": (b'{"con\\u0000tent": "a"}', INVALID),
    "a lone surrogate": (b'{"content": "\\ud800"}', BAD),
    "a lone surrogate in a name": (b'{"\\udfff": "x"}', BAD),
    "surrogates in the wrong order": (b'{"content": "\\udc00\\ud800"}', BAD),
    "a raw surrogate": (b'{"content": "\xed\xa0\x80"}', BAD),
    "invalid UTF-8": (b'{"content": "\xff\xfe"}', BAD),
    "UTF-16": ('{"content": "hi"}'.encode("utf-16"), BAD),
    "a cut character": (b'{"content": "\xe2\x82"}', BAD),
    "a duplicate key": (b'{"content": "a", "content": "b"}', BAD),
    "a duplicate key inside": (b'{"content": [{"type": "text", "type": "text", "text": "x"}]}', BAD),
    "deep arrays": (b'{"content": ' + nested("[", "]").encode() + b"}", BAD),
    "a hundred deep": (b"[" * 100 + b"]" * 100, BAD),
    "deep objects": (b'{"content": ' + nested('{"a":', "}").encode() + b"}", BAD),
    "a long integer": (b'{"content": ' + b"9" * 5000 + b"}", INVALID),
    "a large integer": (b'{"content": 9223372036854775808}', INVALID),
    "a large exponent": (b'{"content": 1e400}', INVALID),
    "an array": (b'[{"content": "hi"}]', INVALID),
    "a text": (b'"content"', INVALID),
    "null": (b"null", INVALID),
    "no fields": (b"{}", INVALID),
}
MALFORMED_YAML: dict[str, tuple[bytes, Fault]] = {
    "an unclosed bracket": (b"content: [1, 2", BAD),
    "bad indentation": (b"content: a\n  b: c\n d: e", BAD),
    "a tab": (b"content:\n\t- x", BAD),
    "two documents": (b"content: a\n---\ncontent: b", BAD),
    "a python tag": (b"content: !!python/object/apply:os.system ['touch /tmp/owned']", BAD),
    "a custom tag": (b"content: !secret hi", BAD),
    "a core tag": (b"content: !!str hi", BAD),
    "a tag on the document": (b"!!map {content: hi}", BAD),
    "an anchor": (b"content: &a hi", BAD),
    "an alias bomb": (bomb().encode(), BAD),
    "an alias to itself": (b"content: &a [*a]", BAD),
    "a merge key": (b"base: &b {content: hi}\n<<: *b", BAD),
    "a duplicate key": (b"content: a\ncontent: b", BAD),
    "a key that is a list": (b"[1, 2]: x", BAD),
    "deep lists": (b"content: " + nested("[", "]").encode(), BAD),
    "deep mappings": (b"content: " + nested("{a: ", "}").encode(), BAD),
    "invalid UTF-8": (b"content: \xff", BAD),
    "a NUL": (b"content: a\x00b", BAD),
    "an escaped NUL": (b'content: "a\\0b"', INVALID),
    "a lone surrogate": (b'content: "\\ud800"', BAD),
    "a number": (b"content: 12", INVALID),
    "a truth": (b"content: true", INVALID),
    "a large number": (b"content: " + b"9" * 100, INVALID),
    "not a number": (b"content: .nan", INVALID),
    "a text": (b"hello", INVALID),
    "nothing": (b"# nothing\n", INVALID),
}
# Values of an execute request that are well written and wrong.
WRONG: dict[str, Any] = {
    "an unknown field": {"content": "hi", "contnet": "hi"},
    "a number": {"content": 1},
    "a truth": {"content": True},
    "null": {"content": None},
    "an object": {"content": {"type": "text", "text": "hi"}},
    "an empty text": {"content": ""},
    "no blocks": {"content": []},
    "an empty block": {"content": [{"type": "text", "text": ""}]},
    "a block that is a text": {"content": ["hi"]},
    "a block without a type": {"content": [{"text": "hi"}]},
    "a block of unknown type": {"content": [{"type": "video", "url": "x"}]},
    "a block with an unknown field": {"content": [{"type": "text", "text": "hi", "bold": True}]},
    "too many blocks": {"content": [{"type": "text", "text": "hi"}] * 101},
    "an image without a url": {"content": [{"type": "image_url", "image_url": {}}]},
    "an empty correlation id": {"content": "hi", "correlation_id": ""},
    "a long correlation id": {"content": "hi", "correlation_id": "c" * 129},
    "a correlation id with a space": {"content": "hi", "correlation_id": "a b"},
    "a correlation id with a line break": {"content": "hi", "correlation_id": "a\n"},
    "a correlation id that is a number": {"content": "hi", "correlation_id": 1},
}

# What the runtime alone can judge.
WRONG_IMAGES: dict[str, Any] = {
    "an image in the request": {"content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]},
    "an image from a file": {"content": [{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}]},
}
UNKNOWN_ARTIFACTS: dict[str, Any] = {
    "a malformed id": {"content": [{"type": "file", "source": {"artifact_id": "x"}}]},
    "an unknown id": {"content": [{"type": "file", "source": {"artifact_id": "0199a0b0-0000-7000-8000-000000000000"}}]},
    "an image elsewhere": {"content": [{"type": "image", "url": "http://x/y"}]},
}
