"""Masks secrets in displayed messages: fields with names such as ``password``, and text that looks like a secret."""

import re
from typing import Any, Final

HIDDEN: Final = "(not shown)"
_NAMES: Final = re.compile(
    r"authorization|cookie|passw|passphrase|secret|credential|signature|identity|ciphertext|encrypted|private_?key"
    r"|api_?key|(^|_)tokens?$|^x_|^headers$",
    re.IGNORECASE,
)
# IDs and names aren't secret. They show which secret is meant.
_HARMLESS: Final = re.compile(r"(_id|_ids|_name|_prefix|_hash)$", re.IGNORECASE)
_FORMS: Final = (
    re.compile(r"\baes_[A-Za-z0-9_-]{20,}"),
    re.compile(r"\bwhsec_[A-Za-z0-9+/=_-]+"),
    re.compile(r"\b(?:sk|pk|ghp|gho|xox[abp])[-_][A-Za-z0-9_-]{16,}"),
    # Compact JWS tokens, and the credentials that follow a header's scheme.
    re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?"),
    re.compile(r"(?<=\bbearer )\S+|(?<=\bbasic )\S+", re.IGNORECASE),
    re.compile(r"(?<=://)[^/\s@]+(?=@)"),
    re.compile(
        r"(?<=[?&])((?:x-amz-)?(?:signature|sig|token|key|secret|password|credential|access_token|api_key"
        r"|security-token))=[^&\s\"']+",
        re.IGNORECASE,
    ),
)


def mask_text(text: str) -> str:
    for form in _FORMS:
        text = form.sub(HIDDEN, text)
    return text


def mask_value(value: Any) -> Any:
    """Returns a JSON value with its secrets masked. Keeps numbers, because ``input_tokens`` is a count, not a token."""
    if isinstance(value, str):
        return mask_text(value)
    if isinstance(value, list):
        return [mask_value(each) for each in value]
    if isinstance(value, dict):
        return {mask_text(name): _named(name, each) for name, each in value.items()}
    return value


def _named(name: str, value: Any) -> Any:
    plain = name.replace("-", "_")
    if isinstance(value, str | list | dict) and value and _NAMES.search(plain) and not _HARMLESS.search(plain):
        return HIDDEN
    return mask_value(value)
