#!/bin/sh
# Let a summary take the place of the conversation, so that the model has room again. The history stays readable.
#
#   sh 18-compact.sh [SESSION]
#
# The answer comes when the model has written the summary.
set -eu
session=${1:-latest}
curl --silent --show-error --fail-with-body --config - \
    --header 'Content-Type: application/json' --data '{}' "$AGENTCORE_URL/v1/sessions/$session/compact" <<END
header = "Authorization: Bearer $AGENTCORE_TOKEN"
END
