#!/bin/sh
# Create a session for a folder and print its id.
#
#   session=$(sh 02-create-session.sh [FOLDER])
#
# The token goes to curl on its standard input (`--config -`), because arguments show up in everybody's `ps`.
set -eu
folder=$(cd "${1:-.}" && pwd)
json=$(printf '%s' "$folder" | sed 's/[\\"]/\\&/g')
curl --silent --show-error --fail-with-body --config - \
    --header 'Content-Type: application/json' --data "{\"cwd\": \"$json\"}" \
    "$AGENTCORE_URL/v1/sessions" <<END | sed 's/.*"id": *"\([0-9]*-[0-9]*-[a-z0-9]*\)".*/\1/'
header = "Authorization: Bearer $AGENTCORE_TOKEN"
END
