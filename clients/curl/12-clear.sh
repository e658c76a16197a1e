#!/bin/sh
# Let the model start from nothing. The history stays readable.
#
#   sh 12-clear.sh [SESSION]
set -eu
session=${1:-latest}
curl --silent --show-error --fail-with-body --config - \
    --header 'Content-Type: application/json' --data '{}' "$AGENTCORE_URL/v1/sessions/$session/clear" <<END
header = "Authorization: Bearer $AGENTCORE_TOKEN"
END
