"""Addresses of the node, and the configuration of its parts."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any, Final

from tests.cluster.cache import CACHE
from tests.cluster.packages import ROOT, program

NODE: Final = "node"
ADDRESS: Final = "10.77.0.1"
PODS: Final = "10.78.0.0/24"
SERVICES: Final = "10.79.0.0/24"
API_SERVICE: Final = "10.79.0.1"
DNS: Final = "10.79.0.10"
CGROUP: Final = "aes-cluster"
STATE: Final = CACHE / "node"
SOCKET: Final = STATE / "run" / "containerd.sock"
PAUSE_IMAGE: Final = "localhost/pause:1"

_CONTAINERD: Final = """
version = 2
root = "{state}/data/containerd"
state = "{state}/run/containerd"
disabled_plugins = [
    "io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
    "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs",
]
[grpc]
address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{pause}"
disable_apparmor = true
# Without CAP_SYS_RESOURCE nothing can be protected from being ended when memory runs out.
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{debian}/usr/lib/cni"
conf_dir = "{state}/cni"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
BinaryName = "{runc}"
"""


def write(reserved_bytes: int) -> None:
    """Writes all files; pods get the machine's memory without `reserved_bytes`."""
    for folder in ("run", "logs", "data/volumes", "cni", "certificates"):
        (STATE / folder).mkdir(parents=True, exist_ok=True)
    # A process of the node asks for names as a pod of the namespace would.
    (STATE / "resolv.conf").write_text(f"nameserver {DNS}\n")
    containerd = _CONTAINERD.format(state=STATE, socket=SOCKET, pause=PAUSE_IMAGE, debian=ROOT, runc=program("runc"))
    tomllib.loads(containerd)
    (STATE / "containerd.toml").write_text(containerd)
    (STATE / "cni" / "10-bridge.conflist").write_text(json.dumps(_network()))
    write_kubelet(reserved_bytes)


def write_kubelet(reserved_bytes: int) -> None:
    (STATE / "kubelet.json").write_text(json.dumps(_kubelet(STATE / "certificates", reserved_bytes)))


def _kubelet(certificates: Path, reserved_bytes: int) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "x509": {"clientCAFile": f"{certificates}/ca.crt"},
            "webhook": {"enabled": True},
            "anonymous": {"enabled": False},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": f"{certificates}/kubelet.crt",
        "tlsPrivateKeyFile": f"{certificates}/kubelet.key",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{CGROUP}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "clusterDomain": "cluster.local",
        "clusterDNS": [DNS],
        "resolvConf": f"{STATE}/resolv.conf",
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "address": ADDRESS,
        "healthzBindAddress": "127.0.0.1",
        "podLogsDir": f"{STATE}/data/pod-logs",
        "systemReserved": {"memory": str(reserved_bytes)} if reserved_bytes else {},
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "2%", "imagefs.available": "2%"},
        # Images come from nowhere a second time.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "maxPods": 200,
    }


def _network() -> dict[str, Any]:
    ranges = {"type": "host-local", "dataDir": f"{STATE}/data/cni", "ranges": [[{"subnet": PODS}]]}
    bridge = {"type": "bridge", "bridge": "pods", "isGateway": True, "ipMasq": False, "hairpinMode": True}
    bridge["ipam"] = {**ranges, "routes": [{"dst": "0.0.0.0/0"}]}
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge]}
