#!/bin/sh
# install-packages base DIR: the packages that all services need, into a virtual environment.
# install-packages EXTRA DIR: those that an extra of pyproject.toml adds to them, into a directory beside it.
set -eu

needed() {
    uv pip compile --quiet --no-header --no-annotate --constraint requirements.lock "$@" pyproject.toml
}

case $1 in
base)
    needed > base.needed.txt
    python3 locked_subset.py requirements.lock base.needed.txt > base.txt
    uv pip install --no-deps --require-hashes --requirement base.txt
    # What is added lies in another layer, so that all images share this one.
    /opt/venv/bin/python -c 'import site; print("/opt/own", file=open(site.getsitepackages()[0] + "/own.pth", "w"))'
    ;;
*)
    mkdir -p "$2"
    needed --extra "$1" > "$1.needed.txt"
    python3 locked_subset.py requirements.lock "$1.needed.txt" base.needed.txt > "$1.txt"
    uv pip install --no-deps --require-hashes --target "$2" --requirement "$1.txt"
    # Where programs were put does not matter; what is written at random or with a time would.
    rm -rf "$2/bin"
    ;;
esac
/opt/venv/bin/python -m compileall -q --invalidation-mode unchecked-hash "$2"
find "$2" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
