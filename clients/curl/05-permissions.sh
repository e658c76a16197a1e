#!/bin/sh
# List the requests that wait for a person: what would run, why it asks, and the digest that proves what you saw.
#
#   sh 05-permissions.sh [SESSION]
set -eu
session=${1:-latest}
curl --silent --show-error --fail-with-body --config - "$AGENTCORE_URL/v1/sessions/$session/permissions" <<END
header = "Authorization: Bearer $AGENTCORE_TOKEN"
END
