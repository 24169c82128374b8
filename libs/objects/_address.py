"""Opens the object store at a URL."""

from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from libs.objects._local import LocalObjects
from libs.objects._store import ObjectStore


def open_store(url: str) -> ObjectStore:
    """Opens the store at ``file:/directory`` or
    ``s3://ACCESS:SECRET@host:port/bucket?secure=false&region=…&public=https://…``.

    Raises a ``ValueError`` that doesn't contain the URL, which may include a secret.
    """
    parts = urlsplit(url)
    if parts.scheme == "file" and parts.path and not parts.netloc:
        return LocalObjects(Path(unquote(parts.path)))
    if parts.scheme != "s3":
        raise ValueError("an object store's URL must be file:/directory or s3://ACCESS:SECRET@host:port/bucket")
    bucket = parts.path.strip("/")
    if not (parts.hostname and bucket and "/" not in bucket and parts.username and parts.password):
        raise ValueError("an S3 object store needs an access key, a secret key, a host and a bucket")
    options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    unknown = options.keys() - {"secure", "region", "public"}
    if unknown:
        raise ValueError(f"unknown option {min(unknown)!r} of an S3 object store; use secure, region or public")
    # The client is imported here, since directory stores don't need it.
    from libs.objects.s3 import S3Objects, S3Settings

    return S3Objects(
        S3Settings(
            endpoint=parts.netloc.rpartition("@")[2],
            bucket=bucket,
            access_key=unquote(parts.username),
            secret_key=unquote(parts.password),
            secure=options.get("secure", "true").lower() not in ("false", "0", "no"),
            region=options.get("region", "us-east-1"),
            public=_public_address(options.get("public", "")),
        )
    )


def _public_address(address: str) -> str:
    parts = urlsplit(address)
    if address and not (parts.scheme in ("http", "https") and parts.netloc and parts.path in ("", "/")):
        raise ValueError("the public address of an S3 object store must be http(s)://host:port")
    return address
