"""The cluster's certificates are signed by its authorities."""

import json
from pathlib import Path

import pytest
from cryptography import x509

from tests.cluster.certificates import make_all


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("certificates")
    make_all(made, "node", "10.77.0.1", "10.79.0.1")
    return made


def test_all_are_signed_by_an_authority(directory: Path) -> None:
    certificates = {file.stem: x509.load_pem_x509_certificate(file.read_bytes()) for file in directory.glob("*.crt")}
    authorities = [certificates.pop("ca"), certificates.pop("front-ca")]
    assert len(certificates) == 8
    for name, certificate in certificates.items():
        (issuer,) = [one for one in authorities if one.subject == certificate.issuer]
        certificate.verify_directly_issued_by(issuer)
        assert (issuer is authorities[1]) is (name == "front")


def test_the_api_server_answers_under_its_addresses(directory: Path) -> None:
    certificate = x509.load_pem_x509_certificate((directory / "apiserver.crt").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value

    assert {str(address) for address in names.get_values_for_type(x509.IPAddress)} >= {"10.77.0.1", "10.79.0.1"}
    assert "kubernetes.default.svc" in names.get_values_for_type(x509.DNSName)


def test_users_prove_themselves_with_files_that_are_there(directory: Path) -> None:
    configurations = [json.loads(file.read_text()) for file in directory.glob("*.conf")]
    assert len(configurations) == 5
    for configuration in configurations:
        (user,), (cluster,) = configuration["users"], configuration["clusters"]
        files = [*user["user"].values(), cluster["cluster"]["certificate-authority"]]
        assert all(Path(file).is_file() for file in files)


def test_keys_are_for_their_owner_alone(directory: Path) -> None:
    assert {file.stat().st_mode & 0o077 for file in directory.glob("*.key")} == {0}
