"""Authorities of a test's own, and what they sign."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAYS = 30


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    plain = serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    path.touch(mode=0o600)
    path.write_bytes(pem)


@dataclass(frozen=True)
class Authority:
    """Signs certificates; all its files lie in `directory`, `<name>.crt` and `<name>.key`."""

    directory: Path
    name: str
    key: ec.EllipticCurvePrivateKey = field(default_factory=new_key)

    def __post_init__(self) -> None:
        self._sign(self.name, x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self.name)]), self.key, ())

    def issue(self, name: str, common_name: str, organization: str = "", addresses: tuple[str, ...] = ()) -> None:
        """Writes a key and a certificate for clients and servers; `addresses` are IP addresses or host names."""
        key = new_key()
        write_key(self.directory / f"{name}.key", key)
        subject = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
        if organization:
            subject.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
        self._sign(name, x509.Name(subject), key, addresses)

    def _sign(self, file: str, subject: x509.Name, key: ec.EllipticCurvePrivateKey, addresses: tuple[str, ...]) -> None:
        now, own = datetime.now(UTC), file == self.name
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self.name)]))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=_DAYS))
            .add_extension(x509.BasicConstraints(ca=own, path_length=None), critical=True)
        )
        if not own:
            usage = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
            builder = builder.add_extension(x509.ExtendedKeyUsage(usage), critical=False)
        if addresses:
            names = x509.SubjectAlternativeName([_general_name(address) for address in addresses])
            builder = builder.add_extension(names, critical=False)
        certificate = builder.sign(self.key, hashes.SHA256())
        (self.directory / f"{file}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def _general_name(address: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(address))
    except ValueError:
        return x509.DNSName(address)


@dataclass(frozen=True)
class Certificates:
    ca_file: Path
    server_file: Path
    """Key and certificate of 127.0.0.1."""
    client_certificate: Path
    client_key: Path


def make_certificates(directory: Path) -> Certificates:
    authority = Authority(directory, "ca")
    authority.issue("server", "127.0.0.1", addresses=("127.0.0.1",))
    authority.issue("client", "client")
    files = (directory / name for name in ("ca.crt", "server.pem", "client.crt", "client.key"))
    made = Certificates(*files)
    parts = ("server.key", "server.crt", "ca.crt")
    made.server_file.write_bytes(b"".join((directory / name).read_bytes() for name in parts))
    return made
