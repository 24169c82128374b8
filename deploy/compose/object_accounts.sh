#!/bin/sh
# Creates an account for each given service. The service creates its own bucket, which no other account can
# access.
#     object_accounts.sh SERVICE …      with ADMIN_… for the administrator and <SERVICE>_SECRET for each account
set -eu

known=$(versitygw admin list-users)
for service in "$@"; do
    eval "secret=\${$(echo "$service" | tr a-z A-Z)_SECRET:?is needed}"
    if echo "$known" | grep -q "^$service "; then
        versitygw admin update-user --access "$service" --secret "$secret"
    else
        versitygw admin create-user --access "$service" --secret "$secret" --role userplus
    fi
    echo "the account of $service is there"
done
