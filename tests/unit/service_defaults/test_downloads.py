"""Ranges of stored bytes that answer a request."""

import pytest

from libs.service_defaults.downloads import wanted

ETAG = '"abc"'


@pytest.mark.parametrize("given", [ETAG, f"W/{ETAG}", f'"other", {ETAG}', "*"])
def test_who_has_the_content_is_not_sent_it_again(given: str) -> None:
    assert wanted({"if-none-match": given, "range": "bytes=0-1"}, size=10, etag=ETAG).status == 304


@pytest.mark.parametrize("given", ["", '"other"', "abc", '"*"'])
def test_who_has_something_else_is_sent_the_content(given: str) -> None:
    assert wanted({"if-none-match": given}, size=10, etag=ETAG).status == 200
