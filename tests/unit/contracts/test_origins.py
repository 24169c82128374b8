"""Origins: valid ones, and equal ones."""

import pytest

from libs.contracts.origins import canonical_origin, is_origin


@pytest.mark.parametrize(
    ("given", "canonical"),
    [
        ("https://example.com", "https://example.com"),
        ("HTTPS://Shop.Example.COM", "https://shop.example.com"),
        ("https://example.com:443", "https://example.com"),
        ("http://example.com:80", "http://example.com"),
        ("http://example.com:443", "http://example.com:443"),
        ("http://localhost:3000", "http://localhost:3000"),
        ("http://localhost:65535", "http://localhost:65535"),
    ],
)
def test_equal_origins_are_equal_texts(given: str, canonical: str) -> None:
    assert is_origin(given)
    assert canonical_origin(given) == canonical


@pytest.mark.parametrize(
    "given",
    ["null", "*", "", "example.com", "https://example.com/", "https://*.example.com", "https://a.com https://b.com",
     "https://user@example.com", "file://x", "https://example.com\n", "https://exämple.com", "http://a:٣",
     "http://a:0", "http://a:080", "http://a:65536", "http://a:99999"],
)  # fmt: skip
def test_what_is_no_origin(given: str) -> None:
    assert not is_origin(given)
    with pytest.raises(ValueError, match="origin"):
        canonical_origin(given)
