#!/bin/bash
# Creates a database and a role for each given service. Running it again resets passwords and keeps data.
#     databases.sh SERVICE …      with PG… for the administrator and <SERVICE>_PASSWORD for each role
set -euo pipefail
export PGOPTIONS="--client-min-messages=warning"

psql --no-psqlrc --quiet --command='REVOKE ALL ON DATABASE postgres FROM PUBLIC'
for service in "$@"; do
    password=${service^^}_PASSWORD
    ROLE_PASSWORD=${!password:?is needed} psql --no-psqlrc --quiet --no-align --tuples-only \
        --set=ON_ERROR_STOP=1 --set=name="$service" <<'SQL'
\getenv password ROLE_PASSWORD
SELECT format('CREATE ROLE %I LOGIN', :'name') WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = :'name') \gexec
ALTER ROLE :"name" PASSWORD :'password';
SELECT format('CREATE DATABASE %I OWNER %I', :'name', :'name')
 WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = :'name') \gexec
-- Everybody may enter a new database until told otherwise.
REVOKE ALL ON DATABASE :"name" FROM PUBLIC;
\connect :name
REVOKE ALL ON SCHEMA public FROM PUBLIC;
ALTER SCHEMA public OWNER TO :"name";
-- Only the administrator may add it.
CREATE EXTENSION IF NOT EXISTS vector;
SQL
    echo "database and role of $service are there"
done
