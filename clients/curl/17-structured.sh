#!/bin/sh
# Ask for an answer of a given form: the answer comes back in `structured`, checked by the schema.
#
#   sh 17-structured.sh SESSION TEXT [SCHEMA]
#
# SCHEMA is a JSON Schema of an object; without one it asks for a title and a list of items.
set -eu
[ $# -ge 2 ] || { echo "usage: sh 17-structured.sh SESSION TEXT [SCHEMA]" >&2; exit 2; }
session=$1
json=$(printf '%s' "$2" | sed 's/[\\"]/\\&/g')
items='{"title": {"type": "string"}, "items": {"type": "array", "items": {"type": "string"}}}'
schema=${3:-"{\"type\": \"object\", \"properties\": $items, \"required\": [\"title\", \"items\"]}"}
curl --silent --show-error --fail-with-body --config - \
    --header 'Content-Type: application/json' \
    --data "{\"text\": \"$json\", \"wait\": true, \"output_schema\": $schema}" \
    "$AGENTCORE_URL/v1/sessions/$session/prompt" <<END
header = "Authorization: Bearer $AGENTCORE_TOKEN"
END
