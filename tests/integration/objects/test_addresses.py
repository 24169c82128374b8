"""Addresses of object stores."""

import pytest

from libs.objects import LocalObjects, open_store
from libs.objects.s3 import S3Objects


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/tmp",
        "file://host/tmp",
        "s3://host/bucket",
        "s3://a:b@host",
        "s3://a:b@host/c/d",
        "s3://a:b@h/c?x=1",
        "s3://a:b@h/c?public=h",
    ],
)
def test_invalid_addresses(url: str) -> None:
    with pytest.raises(ValueError, match="object store") as problem:
        open_store(url)
    assert "a:b" not in str(problem.value)


def test_addresses() -> None:
    assert isinstance(open_store("file:/tmp/objects"), LocalObjects)
    assert isinstance(open_store("s3://key:se%2Fcret@127.0.0.1:9000/bucket?secure=false"), S3Objects)
