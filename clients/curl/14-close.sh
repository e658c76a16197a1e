#!/bin/sh
# Unload a session: its run is cancelled and its streams end with `session_closed`. The journal stays on disk.
#
#   sh 14-close.sh SESSION
set -eu
[ $# -ge 1 ] || { echo "usage: sh 14-close.sh SESSION" >&2; exit 2; }
session=$1
curl --silent --show-error --fail-with-body --request DELETE --config - "$AGENTCORE_URL/v1/sessions/$session" <<END
header = "Authorization: Bearer $AGENTCORE_TOKEN"
END
