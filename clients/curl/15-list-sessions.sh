#!/bin/sh
# List the sessions, newest first, loaded or not.
#
#   sh 15-list-sessions.sh [LIMIT]
set -eu
limit=${1:-20}
curl --silent --show-error --fail-with-body --config - "$AGENTCORE_URL/v1/sessions?limit=$limit" <<END
header = "Authorization: Bearer $AGENTCORE_TOKEN"
END
