# Shortcuts; ./aes and pytest do the work.

default:
    @just --list

# Linters, types, import rules
check:
    ./aes check

# Format and fix what can be fixed
fmt:
    .aes/venv/bin/ruff format .
    .aes/venv/bin/ruff check --fix .

# All tests but the slow ones, or those named: just test tests/unit -x
test *arguments:
    ./aes test {{arguments}}

# All tests
test-all *arguments:
    ./aes test --all {{arguments}}

# Tests against real PostgreSQL and Kafka
test-integration *arguments:
    ./aes test tests/integration {{arguments}}

# The embedded stack
up:
    ./aes up

# Migrate the database of a service, or of all: just migrate runtime
migrate service="all":
    #!/usr/bin/env sh
    set -eu
    services="{{service}}"
    [ "$services" != all ] || services="gateway registry runtime ingestion artifacts"
    for name in $services; do .aes/venv/bin/python -m "services.$name" migrate; done
