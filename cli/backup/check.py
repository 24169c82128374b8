"""Whether a backup is whole, before anything of it is written anywhere."""

from collections.abc import Mapping
from pathlib import Path

from cli.backup import databases
from cli.backup.manifest import Dump, Manifest, dump_file
from deploy.local.errors import StackError

_REMEDY = "Restore another backup."


def checked(folder: Path) -> Manifest:
    """Raises StackError for a manifest or a dump that is missing or not as it was written."""
    manifest = Manifest.read(folder)
    for service in manifest.migrations:
        file = dump_file(folder, service)
        if not file.is_file():
            raise StackError(f"{file} is missing.", _REMEDY)
        if service not in manifest.dumps:
            databases.read_whole(file)
        elif Dump.of(file) != manifest.dumps[service]:
            raise StackError(f"{file} is damaged: its size or checksum is not that of the manifest.", _REMEDY)
    return manifest


def check_objects(folder: Path, manifest: Manifest, found: Mapping[str, tuple[int, int]]) -> None:
    """Compare how many there are, and their bytes, by service, with the manifest; raises StackError when some lack.

    More is fine: a folder that was brought up to date keeps what was deleted since.
    """
    for service, expected in manifest.objects.items():
        if found[service][0] < expected:
            raise StackError(f"Of {expected} objects of {service} the backup has {found[service][0]}.", _REMEDY)
    dumps = sum(dump_file(folder, service).stat().st_size for service in manifest.migrations)
    there, expected = sum(size for _, size in found.values()), manifest.bytes - dumps
    if there < expected:
        raise StackError(f"Of {expected} bytes of objects the backup has {there}.", _REMEDY)
