"""The example of a receiver answers strangers, too."""

import http.client
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

import pytest
from standardwebhooks import Webhook

from deploy.local.home import PROJECT_ROOT
from examples.receive_webhooks import Receiver
from libs.contracts.errors import ValidationFailed
from libs.service_defaults.errors import error_body

EXAMPLE = PROJECT_ROOT / "examples" / "receive_webhooks.py"
SECRET, OTHER = ("whsec_" + letter * 43 + "=" for letter in "AE")
BODY = json.dumps({"type": "turn.completed", "timestamp": "now", "data": {"position": 1, "data": {}}}).encode()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver(("127.0.0.1", 0), [OTHER, SECRET], "") as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def signed(secret: str, body: bytes = BODY) -> dict[str, str]:
    now = datetime.now(UTC)
    signature = Webhook(secret).sign("event", now, body.decode())
    stamp = str(int(now.timestamp()))
    return {"webhook-id": "event", "webhook-timestamp": stamp, "webhook-signature": signature}


def status(receiver: Receiver, headers: Mapping[str, str], body: bytes = BODY) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", receiver.server_address[1], timeout=20)
    try:
        connection.request("POST", "/", body=body, headers=dict(headers))
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize("secret", [SECRET, OTHER])
def test_what_one_of_the_secrets_signed_is_taken(receiver: Receiver, secret: str) -> None:
    assert status(receiver, signed(secret)) == 200
    assert status(receiver, signed(secret), BODY + b" ") == 401


@pytest.mark.parametrize("signature", ["", "v1", "v1,a,b", "v1,a", "v2,AAAA", "v1,AAAA v1"])
def test_what_is_no_signature_is_refused(receiver: Receiver, signature: str) -> None:
    assert status(receiver, {**signed(SECRET), "webhook-signature": signature}) == 401


def test_bytes_that_are_no_text_are_refused(receiver: Receiver) -> None:
    assert status(receiver, signed(SECRET), b"\xff") == 401


@pytest.mark.parametrize("length", ["-1", "x", "99999999999", "9" * 400])
def test_a_length_that_is_none_is_refused(receiver: Receiver, length: str) -> None:
    assert status(receiver, {**signed(SECRET), "content-length": length}, b"") == 413


def secret_by_quickstart(answer: bytes) -> subprocess.CompletedProcess[str]:
    """Runs the quickstart's commands that make a webhook, with that answer to their request."""
    page = (PROJECT_ROOT / "docs" / "get-started" / "quickstart.md").read_text()
    field = re.search(r"^field\(\) .*$", page, re.MULTILINE)
    commands = re.search(
        r"^(WEBHOOK=\$\(curl .*?\))\nexport WEBHOOK_SECRET=(\$\(field .*?\))$", page, re.MULTILINE | re.DOTALL
    )
    assert field
    assert commands
    made, secret = commands.groups()
    script = f'{field[0]}\ncurl() {{ printf %s "$ANSWER"; }}\n{made}\nsecret={secret} && echo "$secret"'
    environment = {"ANSWER": answer.decode(), "PATH": os.environ["PATH"]}
    return subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, timeout=60)


def test_a_webhook_that_the_stack_refuses_is_said_in_a_line() -> None:
    made = secret_by_quickstart(b'{"id": "w", "secret": "whsec_a"}')
    assert (made.returncode, made.stdout, made.stderr) == (0, "whsec_a\n", "")

    refused = secret_by_quickstart(error_body(ValidationFailed("The address is not public.").info()))
    assert refused.returncode == 1
    assert refused.stdout == ""
    assert "The address is not public." in refused.stderr
    assert "Traceback" not in refused.stderr


def test_what_keeps_it_from_starting_is_said_in_a_line(receiver: Receiver) -> None:
    taken = str(receiver.server_address[1])
    for secret, port, said in ((SECRET, taken, "Couldn't listen on"), ("whsec_a", "0", "start with whsec_")):
        done = subprocess.run(
            [sys.executable, EXAMPLE, "--port", port],
            env={"WEBHOOK_SECRET": secret},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 1
        assert said in done.stderr
        assert "Traceback" not in done.stderr
