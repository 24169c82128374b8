"""An event as the body of a look-up: its headers as one JSON line, then the payload."""

import orjson

from libs.contracts.envelope import Envelope, envelope_from
from libs.eventing import Received


def frame(envelope: Envelope, payload: bytes) -> bytes:
    headers = {name: value.decode() for name, value in envelope.headers()}
    return orjson.dumps(headers) + b"\n" + payload


def unframed(body: bytes) -> Received:
    head, payload = body.split(b"\n", 1)
    headers = [(name, value.encode()) for name, value in orjson.loads(head).items()]
    return Received(envelope_from(headers), payload)
