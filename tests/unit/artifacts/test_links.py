from urllib.parse import parse_qsl

import pytest

from libs.contracts.errors import AuthenticationFailed
from libs.contracts.identifiers import new_id
from services.artifacts.domain.links import LinkSigner, artifact_of, link_path

SIGNER = LinkSigner("a secret of tests, long enough to sign")
ARTIFACT = new_id()


def test_a_link_is_good_until_it_expires() -> None:
    parameters = parse_qsl(SIGNER.query(ARTIFACT, 1000))
    SIGNER.check(ARTIFACT, parameters, 999.9)
    with pytest.raises(AuthenticationFailed, match="expired"):
        SIGNER.check(ARTIFACT, parameters, 1000)


def test_every_parameter_and_the_artifact_are_covered() -> None:
    parameters = parse_qsl(SIGNER.query(ARTIFACT, 1000))
    forged = [
        [],
        parameters[:1],
        parameters[1:],
        [*parameters, ("x", "1")],
        [*parameters, parameters[0]],
        [("expires", "2000"), parameters[1]],
        [("expires", "1000\nx"), parameters[1]],
        [parameters[0], ("signature", "é")],
        parse_qsl(LinkSigner("another secret of tests, long enough").query(ARTIFACT, 1000)),
    ]
    for attempt in forged:
        with pytest.raises(AuthenticationFailed):
            SIGNER.check(ARTIFACT, attempt, 0)
    with pytest.raises(AuthenticationFailed):
        SIGNER.check(new_id(), parameters, 0)


def test_which_artifact_a_link_was_made_for() -> None:
    assert artifact_of(f"http://x{link_path(ARTIFACT)}?expires=1") == ARTIFACT
    of_store = f"https://s3.example.com/bucket/blobs/{new_id()}/original?X-Amz-Expires=1&x-label="
    assert artifact_of(of_store + ARTIFACT) == ARTIFACT
    assert artifact_of(of_store) is None
    for other in (f"http://x/artifacts/{ARTIFACT}/", "http://x/artifacts/../content/", "", "http://[", ARTIFACT):
        assert artifact_of(other) is None
