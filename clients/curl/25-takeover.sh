#!/bin/sh
# Load a session that another server holds: take it from that one, which ends its run `taken_over` and has no further
# effect. Without the takeover it is 423, `session_locked`. What waited there waits here; 13-resume.sh goes on with it.
#
#   sh 25-takeover.sh SESSION
set -eu
[ $# -ge 1 ] || { echo "usage: sh 25-takeover.sh SESSION" >&2; exit 2; }
session=$1
curl --silent --show-error --fail-with-body --config - \
    --header 'Content-Type: application/json' \
    --data "{\"resume\": \"$session\", \"takeover\": true}" \
    "$AGENTCORE_URL/v1/sessions" <<END
header = "Authorization: Bearer $AGENTCORE_TOKEN"
END
