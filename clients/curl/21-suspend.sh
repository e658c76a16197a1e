#!/bin/sh
# Let the run stop at its next border. What waits for a person stays open, also across a restart of the server; the
# answer goes on with the run, and so does POST …/resume.
#
#   sh 21-suspend.sh [SESSION]
set -eu
session=${1:-latest}
curl --silent --show-error --fail-with-body --config - \
    --header 'Content-Type: application/json' --data '{}' "$AGENTCORE_URL/v1/sessions/$session/suspend" <<END
header = "Authorization: Bearer $AGENTCORE_TOKEN"
END
