"""Checks that a backup is complete and undamaged before anything of it is restored."""

from collections.abc import Mapping
from pathlib import Path

from cli.backup import databases
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
        file = dump_file(folder, service)
        _check(file, manifest.dumps.get(service))
        if service not in manifest.dumps:
            databases.read_whole(file)
    return manifest


def checked_objects(folder: Path, manifest: Manifest) -> dict[str, dict[str, Written]]:
    """Checks every object of every service that the manifest has an inventory of.

    Raises StackError with the names of missing and damaged ones.
    """
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


def check_counts(folder: Path, manifest: Manifest, found: Mapping[str, Mapping[str, Written]]) -> None:
    """Checks number and bytes of the objects, for a backup without inventories.

    More is fine: a folder that was updated keeps objects that were deleted since.
    """
    for service, expected in manifest.objects.items():
        if len(found[service]) < expected:
            raise StackError(f"Of {expected} objects of {service} the backup has {len(found[service])}.", _REMEDY)
    dumps = sum(dump_file(folder, service).stat().st_size for service in manifest.migrations)
    expected = manifest.bytes - dumps
    there = sum(each.size for objects in found.values() for each in objects.values())
    if there < expected:
        raise StackError(f"Of {expected} bytes of objects the backup has {there}.", _REMEDY)


def _check(file: Path, expected: Written | None) -> None:
    """Without an expected checksum the file only has to exist."""
    if not file.is_file():
        raise StackError(f"{file} is missing.", _REMEDY)
    if expected is not None and checksum(file) != expected:
        raise StackError(f"{file} is damaged: its size or checksum is not that of the manifest.", _REMEDY)
