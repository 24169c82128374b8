"""Ranges of stored bytes that answer a request."""

import pytest

from libs.blobs.downloads import wanted

ETAG = '"abc"'


@pytest.mark.parametrize("given", [ETAG, f"W/{ETAG}", f'"other", {ETAG}', "*"])
def test_a_matching_etag_is_answered_without_content(given: str) -> None:
    assert wanted({"if-none-match": given, "range": "bytes=0-1"}, size=10, etag=ETAG).status == 304


@pytest.mark.parametrize("given", ["", '"other"', "abc", '"*"'])
def test_another_etag_is_answered_with_the_content(given: str) -> None:
    assert wanted({"if-none-match": given}, size=10, etag=ETAG).status == 200
