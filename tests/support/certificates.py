"""An authority of a test's own, and a certificate for this machine by it."""

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Certificates:
    ca_file: Path
    server_file: Path
    """Key and certificate of 127.0.0.1."""
    client_certificate: Path
    client_key: Path


def make_certificates(directory: Path) -> Certificates:
    authority_key, server_key, client_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(3))
    authority = _signed("an authority of tests", authority_key, None, authority_key)
    server = _signed("127.0.0.1", server_key, authority, authority_key)
    client = _signed("client", client_key, authority, authority_key)
    made = Certificates(*(directory / name for name in ("ca.pem", "server.pem", "client.pem", "client-key.pem")))
    made.ca_file.write_bytes(_pem(authority))
    made.server_file.write_bytes(_key_pem(server_key) + _pem(server) + _pem(authority))
    made.client_certificate.write_bytes(_pem(client))
    made.client_key.write_bytes(_key_pem(client_key))
    return made


def _signed(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Certificate | None,
    issuer_key: ec.EllipticCurvePrivateKey,
) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.subject if issuer is not None else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=7))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(address, critical=False)
        .sign(issuer_key, hashes.SHA256())
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
