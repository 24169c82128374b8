"""Prints an installation's namespace and Secrets, as in secrets.example.yaml, with generated values.

    python3 deploy/k8s/new_secrets.py --postgres HOST --objects HOST > secrets.yaml
    kubectl apply -f secrets.yaml

Unset passwords are generated, and their variables listed on stderr: <SERVICE>_PASSWORD for a PostgreSQL role,
and <SERVICE>_OBJECTS as the ACCESS:SECRET of an S3 account. Needs only Python. Keep the file: a second run generates
other keys, which can't decrypt stored secrets.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import secrets
import sys
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

_SERVICES = ("gateway", "registry", "runtime", "ingestion", "artifacts", "timeline")
_PASSWORDS = {service: f"{service.upper()}_PASSWORD" for service in _SERVICES}
_ACCOUNTS = {service: f"{service.upper()}_OBJECTS" for service in ("ingestion", "artifacts")}
_KAFKA_USERS = (*_SERVICES, "operator")
_LABELS = {"pod-security.kubernetes.io/enforce": "restricted"}


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    items = manifests(options, os.environ)
    if missing := [name for name in (*_PASSWORDS.values(), *_ACCOUNTS.values()) if not os.environ.get(name)]:
        print(
            f"Generated values for these unset variables: {', '.join(missing)}. "
            "Create the roles and S3 accounts with them, or set the variables and run this again.",
            file=sys.stderr,
        )
    print(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=2))


def manifests(options: argparse.Namespace, environment: Mapping[str, str]) -> list[dict[str, Any]]:
    """Raises SystemExit if a provider's key isn't in the environment."""
    values: dict[str, dict[str, str]] = {
        "signing-key": {"key": _new(), "accepted": ""},
        "secrets-key": {"keys": base64.b64encode(secrets.token_bytes(32)).decode()},
    }
    for service, name in _PASSWORDS.items():
        password = quote(environment.get(name) or _new(), safe="")
        address = f"{service}:{password}@{options.postgres}/{service}"
        values[f"{service}-database"] = {"url": f"postgresql://{address}?{options.postgres_options}"}
    for service, name in _ACCOUNTS.items():
        account, _, secret = (environment.get(name) or f"{service}:{_new()}").partition(":")
        account, secret = quote(account, safe=""), quote(secret, safe="")
        values[f"{service}-objects"] = {"url": f"s3://{account}:{secret}@{options.objects}/{service}"}
    if options.provider:
        values["model-providers"] = {name: _given(name, environment) for name in options.provider}
    if options.kafka_users:
        values |= {f"{user}-kafka": {"password": _new()} for user in _KAFKA_USERS}
    if options.weaviate:
        values["weaviate"] = {"api-key": _new()}
    namespace = {"name": options.namespace, "labels": _LABELS}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": namespace},
        *(_secret(options.namespace, name, data) for name, data in values.items()),
    ]


def _secret(namespace: str, name: str, data: dict[str, str]) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data}


def _new() -> str:
    return secrets.token_hex(24)


def _given(variable: str, environment: Mapping[str, str]) -> str:
    if not environment.get(variable):
        raise SystemExit(f"{variable} isn't set. Set it to the provider's key in your environment.")
    return environment[variable]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--postgres", required=True, metavar="HOST[:PORT]", help="fully qualified host name, as KEDA requires"
    )
    parser.add_argument("--objects", required=True, metavar="HOST[:PORT]", help="the S3 server")
    parser.add_argument("--namespace", default="agent-execution-service")
    verified = "sslmode=verify-full&sslrootcert=system"
    parser.add_argument("--postgres-options", default=verified, help=f"connection options (default: {verified})")
    parser.add_argument(
        "--provider", action="append", metavar="VARIABLE", help="variable with a provider's key, such as OPENAI_API_KEY"
    )
    parser.add_argument(
        "--kafka-users", action="store_true", help="add Kafka passwords, if Strimzi doesn't create them"
    )
    parser.add_argument("--weaviate", action="store_true", help="add a key for components/weaviate")
    return parser


if __name__ == "__main__":
    main()
