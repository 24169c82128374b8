"""Starts and stops the node: namespaces of its own, etcd, Kubernetes' processes and containerd."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import psutil

from deploy.local.processes import Identity, end
from tests.cluster import packages, settings
from tests.cluster.certificates import make_all
from tests.cluster.programs import NODE as KUBERNETES
from tests.cluster.settings import ADDRESS, CGROUP, NODE, SOCKET, STATE

_CGROUPS: Final = Path("/sys/fs/cgroup")
# The kubelet changes them for the whole machine.
_SYSCTLS: Final = (
    *("vm.overcommit_memory", "vm.panic_on_oom", "kernel.panic", "kernel.panic_on_oops"),
    *("kernel.keys.root_maxkeys", "kernel.keys.root_maxbytes"),
)
_SAVED: Final = STATE.with_name("sysctls.json")
_START_SECONDS: Final = 180.0
_STOP_SECONDS: Final = 20.0
_ANSWER_SECONDS: Final = 60.0
_CERTIFICATES: Final = STATE / "certificates"
# Its processes in the order of their starts; the namespaces' own is the first.
_ORDER: Final = ("namespaces", "etcd", "containerd", "apiserver", "controller-manager", "scheduler", "kubelet", "proxy")
Say = Callable[[str], None]


def start(say: Say, memory_bytes: int) -> None:
    """Starts everything and returns when the node is ready; its pods get `memory_bytes` in all."""
    stop(say)
    shutil.rmtree(STATE, ignore_errors=True)
    _save_sysctls()
    settings.write(_reserved(memory_bytes))
    make_all(_CERTIFICATES, NODE, ADDRESS, settings.API_SERVICE)
    _make_cgroups()
    _make_namespaces()
    for name in _ORDER[1:4]:
        _start(name)
    _until(lambda: _answers("/readyz"), "the API server is ready")
    for name in _ORDER[4:]:
        _start(name)
    ready = "{.status.conditions[?(@.type=='Ready')].status}"
    _until(lambda: _said("get", "node", NODE, f"--output=jsonpath={ready}") == "True", "the node is ready")
    say(f"the node is ready: Kubernetes {KUBERNETES.version}, {memory_bytes / 2**30:g} GiB for pods")


def limit_memory(memory_bytes: int) -> None:
    """Gives pods another amount of memory; they go on running."""
    settings.write_kubelet(_reserved(memory_bytes))
    _end("kubelet")
    _start("kubelet")


def stop(say: Say) -> None:
    """Ends what an earlier or this run has started, whatever of it is there, and restores the machine's settings."""
    if _pid("namespaces") is not None:
        say("stopping the node")
        if _pid("apiserver") is not None and _pid("kubelet") is not None:
            _remove_pods()
        for name in reversed(_ORDER[1:]):
            _end(name)
        _end_containers()
        _end("namespaces")
    remove_cgroups(CGROUP)
    _restore_sysctls()


def inside(command: Sequence[str]) -> list[str]:
    """The command in the node's namespaces."""
    return ["nsenter", f"--target={_pid('namespaces')}", "--mount", "--net", f"--wd={os.getcwd()}", *command]


def kubectl(*arguments: str) -> list[str]:
    """The command line of kubectl for a process that is in the node's namespaces."""
    return [str(KUBERNETES.path("kubectl")), f"--kubeconfig={_CERTIFICATES}/admin.conf", *arguments]


def import_images(archive: Path) -> None:
    command = [str(packages.program("ctr")), f"--address={SOCKET}", "--namespace=k8s.io", "images", "import"]
    done = subprocess.run(
        inside([*command, str(archive)]), env=environment(), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{archive} cannot be imported: {done.stderr[-2000:]}")


def kill(pod: dict[str, Any]) -> None:
    """Ends the processes of a pod's containers at once, as `kill -9` does; they have to be running."""
    containers = [status["containerID"].rpartition("/")[2] for status in pod["status"]["containerStatuses"]]
    processes = [pid for name in containers for pid in _members((_CGROUPS / "pids" / CGROUP).rglob(name))]
    if not processes:
        raise RuntimeError(f"{pod['metadata']['name']} has no processes")
    for pid in processes:
        os.kill(pid, signal.SIGKILL)


def environment() -> dict[str, str]:
    return packages.environment() | {"KUBECACHEDIR": str(STATE / "data" / "kubectl")}


def _reserved(memory_bytes: int) -> int:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(0, total - memory_bytes)


# ---- Processes.


def _commands() -> dict[str, list[str]]:
    certificates = _CERTIFICATES
    own = {name: str(KUBERNETES.path(name)) for name in KUBERNETES.packages}

    def as_user(user: str, *kinds: str) -> list[str]:
        return [f"--{kind}kubeconfig={certificates}/{user}.conf" for kind in ("", *kinds)]

    local = ["--leader-elect=false", "--bind-address=127.0.0.1"]
    return {
        "namespaces": ["unshare", "--mount", "--net", "--propagation=private", "sleep", "infinity"],
        "etcd": [own["etcd"], f"--data-dir={STATE}/data/etcd", "--unsafe-no-fsync"],
        "containerd": [str(packages.program("containerd")), f"--config={STATE}/containerd.toml"],
        "apiserver": [own["kube-apiserver"], *_api_server_options(certificates)],
        "controller-manager": [
            *(own["kube-controller-manager"], *as_user("controller-manager", "authentication-", "authorization-")),
            *(f"--service-account-private-key-file={certificates}/accounts.key", "--use-service-account-credentials"),
            *(f"--root-ca-file={certificates}/ca.crt", f"--cluster-cidr={settings.PODS}", *local),
            # As often as the tests can wait for.
            "--horizontal-pod-autoscaler-sync-period=5s",
        ],
        "scheduler": [
            *(own["kube-scheduler"], *as_user("scheduler", "authentication-", "authorization-"), *local),
        ],
        "kubelet": [
            *(own["kubelet"], f"--config={STATE}/kubelet.json", *as_user("kubelet"), f"--hostname-override={NODE}"),
            *(f"--node-ip={ADDRESS}", f"--root-dir={STATE}/data/kubelet"),
        ],
        "proxy": [
            *(own["kube-proxy"], *as_user("proxy"), f"--hostname-override={NODE}", f"--cluster-cidr={settings.PODS}"),
            *("--proxy-mode=iptables", "--conntrack-max-per-core=0", f"--bind-address={ADDRESS}"),
        ],
    }


def _api_server_options(certificates: Path) -> list[str]:
    def pair(option: str, name: str) -> list[str]:
        certificate, key = f"--{option}-cert-file", f"--{option}-private-key-file"
        return [f"{certificate}={certificates}/{name}.crt", f"{key}={certificates}/{name}.key"]

    return [
        "--etcd-servers=http://127.0.0.1:2379",
        *(f"--advertise-address={ADDRESS}", f"--service-cluster-ip-range={settings.SERVICES}"),
        "--kubelet-preferred-address-types=InternalIP",
        *pair("tls", "apiserver"),
        f"--client-ca-file={certificates}/ca.crt",
        f"--kubelet-certificate-authority={certificates}/ca.crt",
        f"--kubelet-client-certificate={certificates}/kubelet-client.crt",
        f"--kubelet-client-key={certificates}/kubelet-client.key",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={certificates}/accounts.pub",
        f"--service-account-signing-key-file={certificates}/accounts.key",
        *("--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction"),
        # For the servers of metrics, which are asked through this one.
        *("--enable-aggregator-routing=true", "--requestheader-allowed-names=front-proxy"),
        f"--requestheader-client-ca-file={certificates}/front-ca.crt",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        *("--requestheader-group-headers=X-Remote-Group", "--requestheader-username-headers=X-Remote-User"),
        f"--proxy-client-cert-file={certificates}/front.crt",
        f"--proxy-client-key-file={certificates}/front.key",
    ]


def _start(name: str) -> None:
    command = _commands()[name]
    if name != "namespaces":
        command = inside(command)
    with (STATE / "logs" / f"{name}.log").open("ab") as log:
        process = subprocess.Popen(
            command,
            cwd=STATE,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    started = Identity.of(process.pid)
    if started is None:
        raise RuntimeError(f"{name} ended at once: see {STATE}/logs")
    (STATE / "run" / f"{name}.json").write_text(json.dumps([started.pid, started.started]))


def _pid(name: str) -> int | None:
    """Its process, if that is still the one that was started."""
    try:
        identity = Identity(*json.loads((STATE / "run" / f"{name}.json").read_text()))
    except FileNotFoundError:
        return None
    return identity.pid if identity.process() is not None else None


def _end(name: str) -> None:
    deadline, sent = time.monotonic() + _STOP_SECONDS, signal.SIGTERM
    while (pid := _pid(name)) is not None:
        os.kill(pid, sent)
        time.sleep(0.5)
        if time.monotonic() > deadline:
            sent = signal.SIGKILL


def _answers(path: str) -> bool:
    return _said("get", f"--raw={path}") == "ok"


def _said(*arguments: str) -> str:
    command = inside(kubectl(*arguments))
    try:
        done = subprocess.run(
            command, env=environment(), capture_output=True, text=True, check=False, timeout=_ANSWER_SECONDS
        )
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout.strip()


def _until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not condition():
        dead = [name for name in _ORDER if (STATE / "run" / f"{name}.json").exists() and _pid(name) is None]
        if dead or time.monotonic() > deadline:
            ended = f"; {', '.join(dead)} ended" if dead else ""
            raise RuntimeError(f"waited in vain until {what}{ended}: see {STATE}/logs")
        time.sleep(0.5)


# ---- The machine.


def _make_namespaces() -> None:
    _start("namespaces")
    time.sleep(0.5)
    script = f"""
        set -e
        ip link set lo up
        ip link add node0 type veth peer name node1
        ip link set node0 up
        ip link set node1 up
        ip addr add {ADDRESS}/24 dev node0
        ip route add default via 10.77.0.254 dev node0
        sysctl -qw net.ipv4.ip_forward=1
        sysctl -qw net.bridge.bridge-nf-call-iptables=1
        mkdir -p /var/lib/kubelet /var/lib/cni /var/log/containers /run/netns
        for directory in /var/lib/kubelet /var/lib/cni /var/log/containers /run/netns; do
            mount -t tmpfs tmpfs $directory
        done
        mount --make-rshared /
        mount --bind {STATE}/resolv.conf /etc/resolv.conf
    """
    subprocess.run(inside(["bash", "-c", script]), env=environment(), check=True)


def _make_cgroups() -> None:
    for hierarchy in _hierarchies():
        own = hierarchy / CGROUP
        own.mkdir(exist_ok=True)
        if hierarchy.name == "cpuset":
            for file in ("cpuset.cpus", "cpuset.mems"):
                (own / file).write_text((hierarchy / file).read_text())


def remove_cgroups(name: str) -> None:
    """Removes those of ended processes, in every hierarchy."""
    for hierarchy in _CGROUPS.iterdir():
        for directory, _, _ in os.walk(hierarchy / name, topdown=False):
            os.rmdir(directory)


def _hierarchies() -> list[Path]:
    """The directories of cgroup version 1."""
    return [path for path in _CGROUPS.iterdir() if path.is_dir() and not path.is_symlink() and path.name != "unified"]


def _save_sysctls() -> None:
    if _SAVED.exists():
        return
    values: dict[str, str] = {name: _sysctl(name).read_text().strip() for name in _SYSCTLS}
    _SAVED.parent.mkdir(parents=True, exist_ok=True)
    _SAVED.write_text(json.dumps(values))


def _restore_sysctls() -> None:
    if not _SAVED.exists():
        return
    saved: dict[str, Any] = json.loads(_SAVED.read_text())
    for name, value in saved.items():
        if _sysctl(name).read_text().strip() != value:
            _sysctl(name).write_text(value)
    _SAVED.unlink()


def _sysctl(name: str) -> Path:
    return Path("/proc/sys", *name.split("."))


def _remove_pods() -> None:
    """Pods end before the node does, so that nothing of them stays."""
    _said("delete", "deployments,statefulsets,jobs,cronjobs", "--all", "--all-namespaces", "--wait=false")
    _said("delete", "pods", "--all", "--all-namespaces", "--grace-period=1", "--timeout=50s")


def _end_containers() -> None:
    """Kills processes of pods that the kubelet did not end any more, and those that held them for containerd."""
    held = _members(path.parent for path in (_CGROUPS / "pids" / CGROUP).rglob("cgroup.procs"))
    processes = [psutil.Process(pid) for pid in held if psutil.pid_exists(pid)]
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.name().startswith("containerd-shim") and str(SOCKET) in process.cmdline():
                processes.append(process)
    end(processes, signal.SIGKILL)


def _members(cgroups: Iterable[Path]) -> list[int]:
    return [int(pid) for cgroup in cgroups for pid in (cgroup / "cgroup.procs").read_text().split()]
