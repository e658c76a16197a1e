#!/bin/sh
# Queue a prompt behind the run that is going on, then show what waits. In an idle session it begins at once.
#
#   sh 19-queue.sh SESSION TEXT
#
# PATCH …/queue {"order": [prompt_id, …]} reorders it, PATCH …/queue/PROMPT_ID {"text": …} edits one, and DELETE of the
# same path removes it.
set -eu
[ $# -ge 2 ] || { echo "usage: sh 19-queue.sh SESSION TEXT" >&2; exit 2; }
session=$1
text=$(printf '%s' "$2" | sed 's/[\\"]/\\&/g')

curl --silent --show-error --fail-with-body --config - --header 'Content-Type: application/json' \
    --data "{\"text\": \"$text\", \"when_busy\": \"queue\"}" "$AGENTCORE_URL/v1/sessions/$session/prompt" <<END
header = "Authorization: Bearer $AGENTCORE_TOKEN"
END
echo
curl --silent --show-error --fail-with-body --config - "$AGENTCORE_URL/v1/sessions/$session/queue" <<END
header = "Authorization: Bearer $AGENTCORE_TOKEN"
END
