"""Builds substitutes for images that can't be pulled: `python -m deploy.images.fallback_images [NAME …] [--replace]`.

The images have the names in the Dockerfile and docker-compose.yml, and contain the same programs as the originals. The
build requires the project's environment, root (for debootstrap), a Docker engine, and Go. Existing images are kept,
unless `--replace` is given.
"""

import argparse
import sys

try:
    from deploy.images.fallback_images.docker import build, ensure_debian, exists
    from deploy.images.fallback_images.recipes import RECIPES, wanted_images
except ModuleNotFoundError as missing:
    sys.exit(
        f"No module named '{missing.name}' here. Create the project's environment with ./aes --version, then run "
        ".aes/venv/bin/python -m deploy.images.fallback_images."
    )


def main() -> None:
    wanted = wanted_images()
    parser = argparse.ArgumentParser(prog="python -m deploy.images.fallback_images", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"any of {', '.join(RECIPES)}; defaults to all")
    parser.add_argument("--replace", action="store_true", help="rebuild existing images")
    arguments = parser.parse_args()
    if unknown := {*arguments.names} - RECIPES.keys():
        parser.error(f"unknown image {', '.join(sorted(unknown))}")
    for name in arguments.names or wanted:
        image = wanted[name]
        if exists(image) and not arguments.replace:
            print(f"{image} already exists", file=sys.stderr)
            continue
        ensure_debian()
        with RECIPES[name](image.rpartition(":")[2]) as context:
            build(image, context)
        print(f"{image} built", file=sys.stderr)


if __name__ == "__main__":
    main()
