"""The cluster's authorities, keys and kubeconfigs."""

from __future__ import annotations

import ipaddress
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAYS = 30


def _key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def _write_key(path: Path, key: rsa.RSAPrivateKey) -> None:
    plain = serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    path.touch(mode=0o600)
    path.write_bytes(pem)


@dataclass(frozen=True)
class Authority:
    """Signs certificates; all its files lie in `directory`, `<name>.crt` and `<name>.key`."""

    directory: Path
    name: str
    key: rsa.RSAPrivateKey = field(default_factory=_key)

    def __post_init__(self) -> None:
        self._sign(self.name, x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self.name)]), self.key, ())

    def issue(self, name: str, common_name: str, organization: str = "", addresses: tuple[str, ...] = ()) -> None:
        """Writes a key and a certificate for clients and servers; `addresses` are IP addresses or host names."""
        key = _key()
        _write_key(self.directory / f"{name}.key", key)
        subject = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
        if organization:
            subject.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
        self._sign(name, x509.Name(subject), key, addresses)

    def _sign(self, file: str, subject: x509.Name, key: rsa.RSAPrivateKey, addresses: tuple[str, ...]) -> None:
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


def make_all(directory: Path, node: str, address: str, service_address: str) -> None:
    """Issues the certificates of the node's processes and of `kubectl`."""
    directory.mkdir(parents=True, exist_ok=True)
    authority, front = Authority(directory, "ca"), Authority(directory, "front-ca")
    names = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
    authority.issue("apiserver", "kube-apiserver", addresses=(address, "127.0.0.1", service_address, *names))
    front.issue("front", "front-proxy")
    authority.issue("kubelet-client", "apiserver-kubelet-client", "system:masters")
    authority.issue("admin", "admin", "system:masters")
    authority.issue("controller-manager", "system:kube-controller-manager")
    authority.issue("scheduler", "system:kube-scheduler")
    authority.issue("proxy", "system:kube-proxy")
    authority.issue("kubelet", f"system:node:{node}", "system:nodes", (address, node))
    for user in ("admin", "controller-manager", "scheduler", "proxy", "kubelet"):
        (directory / f"{user}.conf").write_text(json.dumps(_kubeconfig(directory, user, address)))
    accounts = _key()
    _write_key(directory / "accounts.key", accounts)
    public = accounts.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    (directory / "accounts.pub").write_bytes(public)


def _kubeconfig(directory: Path, user: str, address: str) -> dict[str, object]:
    cluster = {"server": f"https://{address}:6443", "certificate-authority": str(directory / "ca.crt")}
    own = {"client-certificate": str(directory / f"{user}.crt"), "client-key": str(directory / f"{user}.key")}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "node", "cluster": cluster}],
        "users": [{"name": user, "user": own}],
        "contexts": [{"name": "node", "context": {"cluster": "node", "user": user}}],
        "current-context": "node",
    }
