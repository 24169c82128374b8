#!/bin/sh
# install-packages base: installs the packages of all images into the virtual environment.
# install-packages NAME DIR: installs the additional packages of image NAME into a separate directory.
set -eu

environment=$(/opt/venv/bin/python -c 'import site; print(site.getsitepackages()[0])')
target=${2:-$environment}
python3 -m pip install --no-cache-dir --no-compile --no-deps --require-hashes --target "$target" --requirement "$1.lock"
# Programs run as modules.
rm -rf "$target/bin"
# Additional packages are in another layer, so that all images share this layer.
[ "$target" != "$environment" ] || echo /opt/own > "$target/own.pth"
/opt/venv/bin/python -m compileall -q --invalidation-mode unchecked-hash "$target"
find /opt/venv "$target" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
