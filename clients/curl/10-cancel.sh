#!/bin/sh
# Stop the run at once. What the model said so far is kept, and open requests are resolved as cancelled.
#
#   sh 10-cancel.sh [SESSION]
set -eu
session=${1:-latest}
curl --silent --show-error --fail-with-body --config - \
    --header 'Content-Type: application/json' --data '{}' "$AGENTCORE_URL/v1/sessions/$session/cancel" <<END
header = "Authorization: Bearer $AGENTCORE_TOKEN"
END
