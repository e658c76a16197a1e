#!/bin/sh
# Hand in a prompt and come back at once. The answer is a promise: the prompt is on disk, and `after_seq` is where to
# read its events from.
#
#   sh 04-prompt.sh SESSION TEXT
set -eu
[ $# -ge 2 ] || { echo "usage: sh 04-prompt.sh SESSION TEXT" >&2; exit 2; }
session=$1
json=$(printf '%s' "$2" | sed 's/[\\"]/\\&/g') # one line of text; for more, send a file: --data @prompt.json
curl --silent --show-error --fail-with-body --config - \
    --header 'Content-Type: application/json' --data "{\"text\": \"$json\"}" \
    "$AGENTCORE_URL/v1/sessions/$session/prompt" <<END
header = "Authorization: Bearer $AGENTCORE_TOKEN"
END
