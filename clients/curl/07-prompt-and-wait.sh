#!/bin/sh
# Hand in a prompt and wait for its end: one request, one answer with the text and the reason why it stopped.
# What needs a permission meanwhile waits for whoever answers it (see 06-answer.sh).
#
#   sh 07-prompt-and-wait.sh SESSION TEXT
set -eu
[ $# -ge 2 ] || { echo "usage: sh 07-prompt-and-wait.sh SESSION TEXT" >&2; exit 2; }
session=$1
json=$(printf '%s' "$2" | sed 's/[\\"]/\\&/g')
curl --silent --show-error --fail-with-body --config - \
    --header 'Content-Type: application/json' --data "{\"text\": \"$json\", \"wait\": true}" \
    "$AGENTCORE_URL/v1/sessions/$session/prompt" <<END
header = "Authorization: Bearer $AGENTCORE_TOKEN"
END
