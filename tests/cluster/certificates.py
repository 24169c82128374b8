"""The cluster's keys, certificates and kubeconfigs."""

from __future__ import annotations

import json
from pathlib import Path

from cryptography.hazmat.primitives import serialization

from tests.support.certificates import Authority, new_key, write_key


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
    accounts = new_key()
    write_key(directory / "accounts.key", accounts)
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
