#!/bin/sh
# Begin a session with a copy of this one's history. AT is the index of a message in the history (11-messages.sh): at a
# prompt the copy ends just before it, and the answer holds its text, to be edited and sent again. Default: the end.
#
#   sh 23-fork.sh [SESSION] [AT]
set -eu
session=${1:-latest}
body='{}'
[ -z "${2:-}" ] || body="{\"at\": $2}"
curl --silent --show-error --fail-with-body --config - \
    --header 'Content-Type: application/json' --data "$body" "$AGENTCORE_URL/v1/sessions/$session/fork" <<END
header = "Authorization: Bearer $AGENTCORE_TOKEN"
END
