#!/bin/bash
# Replaces the entry point of postgres images as far as docker-compose.yml needs it: creates the cluster at
# first start.
set -euo pipefail

if [ "$(id -u)" = 0 ]; then
    install -d -m 0700 -o postgres -g postgres "$(dirname "$PGDATA")" "$PGDATA"
    exec setpriv --reuid postgres --regid postgres --clear-groups "$0" "$@"
fi
if [ "$1" = postgres ] && [ ! -s "$PGDATA/PG_VERSION" ]; then
    : "${POSTGRES_PASSWORD:?is needed to make the cluster}"
    read -ra arguments <<<"${POSTGRES_INITDB_ARGS:-}"
    initdb -D "$PGDATA" -U "${POSTGRES_USER:-postgres}" --auth=scram-sha-256 \
        --pwfile=<(printf '%s\n' "$POSTGRES_PASSWORD") "${arguments[@]}"
    echo "host all all all scram-sha-256" >>"$PGDATA/pg_hba.conf"
    echo "listen_addresses = '*'" >>"$PGDATA/postgresql.conf"
    echo "unix_socket_directories = '/var/run/postgresql'" >>"$PGDATA/postgresql.conf"
fi
# The server rejects a directory that's accessible to a group, which a volume may have become.
[ "$1" != postgres ] || chmod 0700 "$PGDATA"
exec "$@"
