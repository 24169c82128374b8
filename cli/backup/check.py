"""Checks that a backup is complete and undamaged before anything of it is restored."""

from pathlib import Path

from cli.backup.manifest import Manifest, checksum, dump_file, inventory_file, objects_directory, read_inventory
from cli.backup.objects import damaged
from cli.backup.steps import Steps
from deploy.local.errors import StackError
from libs.objects import Written

_REMEDY = "Restore another backup."
_NAMED = 20


def checked(folder: Path) -> Manifest:
    """Checks manifest and dumps. Raises StackError for one that is missing or damaged."""
    manifest = Manifest.read(folder)
    for service in manifest.migrations:
        _check(dump_file(folder, service), manifest.dumps[service])
    return manifest


def checked_objects(folder: Path, manifest: Manifest) -> dict[str, dict[str, Written]]:
    """Checks every object of every service. Raises StackError with the names of missing and damaged ones."""
    found = {}
    for service, expected in manifest.inventories.items():
        file = inventory_file(folder, service)
        _check(file, expected)
        found[service] = read_inventory(file)
        steps = Steps(f"Objects of {service} checked")
        if problems := damaged(objects_directory(folder, service), found[service], steps):
            more = f" and {len(problems) - _NAMED} more" if len(problems) > _NAMED else ""
            named = f"{len(problems)} are not as they were written: {', '.join(problems[:_NAMED])}{more}"
            raise StackError(f"Of {len(found[service])} objects of {service} {named}.", _REMEDY)
    return found


def _check(file: Path, expected: Written) -> None:
    if not file.is_file():
        raise StackError(f"{file} is missing.", _REMEDY)
    if checksum(file) != expected:
        raise StackError(f"{file} is damaged: its size or checksum is not that of the manifest.", _REMEDY)
