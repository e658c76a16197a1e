#!/bin/sh
# Get an address that a browser's EventSource can open. It cannot send a header, so the address carries a ticket: good
# for one stream, for 30 seconds, for nothing else. After a cut, take a new one and add `&after=<last id>`.
#
#   sh 09-ticket.sh SESSION
set -eu
[ $# -ge 1 ] || { echo "usage: sh 09-ticket.sh SESSION" >&2; exit 2; }
session=$1
ticket=$(
    curl --silent --show-error --fail-with-body --config - \
        --header 'Content-Type: application/json' --data "{\"session\": \"$session\"}" \
        "$AGENTCORE_URL/v1/stream-tickets" <<END | sed 's/.*"ticket": *"\([^"]*\)".*/\1/'
header = "Authorization: Bearer $AGENTCORE_TOKEN"
END
)
echo "$AGENTCORE_URL/v1/sessions/$session/events?ticket=$ticket"
