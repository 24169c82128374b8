"""Builds the node's programs from Go modules once; they are kept in the cache."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.cache import CACHE, locked
from tests.cluster.trimmed_keda import trim

KUBERNETES = "1.34.4"
_STAGING = "v0.34.4"
_OWN_MODULES = Path(__file__).parent / "modules"
_ENVIRONMENT = {"CGO_ENABLED": "0", "GOFLAGS": "-p=2 -buildvcs=false -mod=mod", "GOWORK": "off"}
_BUILD_SECONDS = 3600
Say = Callable[[str], None]


@dataclass(frozen=True)
class Program:
    """One or more programs of a module: packages by the name of their program."""

    name: str
    version: str
    packages: Mapping[str, str]
    module: str = ""
    """Empty for a module of this folder."""
    prepare: Callable[[Path], None] = lambda _: None
    """Changes the copy of the module's source before it is built."""
    variables: Mapping[str, str] | None = None
    """Go variables that the linker sets."""

    @property
    def directory(self) -> Path:
        return CACHE / f"{self.name}-{self.version}"

    def path(self, program: str) -> Path:
        return self.directory / program

    def built(self) -> bool:
        return all(self.path(program).exists() for program in self.packages)


def without_staging(source: Path) -> None:
    """Published releases take the place of the modules that only Kubernetes' repository has."""
    file = source / "go.mod"
    published = rf"\1\2 => \2 {_STAGING}"
    file.write_text(re.sub(r"(?m)^(\s*)(k8s\.io/\S+) => \./staging\S+$", published, file.read_text()))


_VERSION = {
    "k8s.io/component-base/version.gitVersion": f"v{KUBERNETES}",
    "k8s.io/component-base/version.gitMajor": KUBERNETES.split(".")[0],
    "k8s.io/component-base/version.gitMinor": KUBERNETES.split(".")[1],
    "k8s.io/client-go/pkg/version.gitVersion": f"v{KUBERNETES}",
}
NODE = Program(
    "kubernetes",
    KUBERNETES,
    {
        "kube-apiserver": "./cmd/kube-apiserver",
        "kubelet": "./cmd/kubelet",
        "kube-controller-manager": "./cmd/kube-controller-manager",
        "kube-scheduler": "./cmd/kube-scheduler",
        "kube-proxy": "./cmd/kube-proxy",
        "kubectl": "./cmd/kubectl",
        "etcd": "go.etcd.io/etcd/server/v3",
    },
    module="k8s.io/kubernetes",
    prepare=without_staging,
    variables=_VERSION,
)
COREDNS = Program("coredns", "1.15.0", {"coredns": "."})
PAUSE = Program("pause", "1", {"pause": "."})
METRICS_SERVER = Program(
    "metrics-server", "0.9.0", {"metrics-server": "./cmd/metrics-server"}, module="sigs.k8s.io/metrics-server"
)
KEDA = Program(
    "keda",
    "2.21.0",
    {"keda": "./cmd/operator", "keda-adapter": "./cmd/adapter"},
    module="github.com/kedacore/keda/v2",
    prepare=trim,
    variables={"github.com/kedacore/keda/v2/version.Version": "2.21.0"},
)
PROGRAMS = (PAUSE, NODE, COREDNS, METRICS_SERVER, KEDA)


def build(program: Program, say: Say) -> None:
    """Builds what is missing, which takes minutes. Raises CalledProcessError after Go has said why."""
    with locked(program.name):
        if program.built():
            return
        began = time.monotonic()
        say(f"building {program.name} {program.version}: {', '.join(program.packages)}")
        source = CACHE / "sources" / program.name
        _copy_source(program, source)
        program.prepare(source)
        _compile(program, source)
        shutil.rmtree(source)
        say(f"{program.name} built in {time.monotonic() - began:.0f} s")


def _copy_source(program: Program, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    if not program.module:
        shutil.copytree(_OWN_MODULES / program.name, target)
        return
    downloaded = _go(["mod", "download", "-json", f"{program.module}@v{program.version}"], Path("/"), output=True)
    source: dict[str, Any] = json.loads(downloaded)
    shutil.copytree(source["Dir"], target)
    # Modules are kept without the right to write.
    subprocess.run(["chmod", "-R", "u+w", str(target)], check=True)


def _compile(program: Program, source: Path) -> None:
    flags = "-s -w " + " ".join(f"-X {name}={value}" for name, value in (program.variables or {}).items())
    for name, package in program.packages.items():
        made = source / "built" / name
        # One after the other: each that is finished stays if a later one cannot be built.
        if not program.path(name).exists():
            _go(["build", "-trimpath", "-ldflags", flags, "-o", str(made), package], source)
            program.directory.mkdir(parents=True, exist_ok=True)
            shutil.move(made, program.path(name))
    for manifests in ("config", "manifests"):
        if (source / manifests).is_dir():
            shutil.copytree(source / manifests, program.directory / manifests, dirs_exist_ok=True)


def _go(arguments: list[str], directory: Path, *, output: bool = False) -> str:
    done = subprocess.run(
        ["go", *arguments],
        cwd=directory,
        env={**os.environ, **_ENVIRONMENT},
        stdout=subprocess.PIPE if output else None,
        text=True,
        check=True,
        timeout=_BUILD_SECONDS,
    )
    return done.stdout or ""
