"""The packages in `web/vendor` are those of its manifest, with their licences."""

import hashlib

from web.assets import FOLDER, vendored

VENDOR = FOLDER / "vendor"
FREE = {"MIT", "Apache-2.0"}


def test_every_vendored_file_is_the_one_of_the_manifest() -> None:
    known = {path: file["sha256"] for package in vendored() for path, file in package["files"].items()}
    there = {
        file.relative_to(VENDOR).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in VENDOR.rglob("*")
        if file.is_file() and file.name not in ("manifest.json", "README.md")
    }
    assert there == known


def test_every_package_has_a_version_and_comes_with_its_licence() -> None:
    for package in vendored():
        assert package["version"][0].isdigit()
        assert package["licence"] in FREE
        assert f"{package['name']}/LICENSE" in package["files"]


def test_modules_are_imported_by_the_names_of_the_manifest() -> None:
    files = {path for package in vendored() for path in package["files"]}
    assert {path for package in vendored() for path in package["imports"].values()} <= files
