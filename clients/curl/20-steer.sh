#!/bin/sh
# Say something to the run that is going on: it takes it at its next border, and calls that have not started are skipped.
# With `interrupt` in the place of `steer` the run is cancelled and this prompt begins.
#
#   sh 20-steer.sh SESSION TEXT [steer|interrupt]
set -eu
[ $# -ge 2 ] || { echo "usage: sh 20-steer.sh SESSION TEXT [steer|interrupt]" >&2; exit 2; }
text=$(printf '%s' "$2" | sed 's/[\\"]/\\&/g')
curl --silent --show-error --fail-with-body --config - --header 'Content-Type: application/json' \
    --data "{\"text\": \"$text\", \"when_busy\": \"${3:-steer}\"}" "$AGENTCORE_URL/v1/sessions/$1/prompt" <<END
header = "Authorization: Bearer $AGENTCORE_TOKEN"
END
