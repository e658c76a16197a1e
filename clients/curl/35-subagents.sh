#!/bin/sh
# What the subagents of a session ask, and the answer to a question of one.
#
#   sh 35-subagents.sh SESSION [REQUEST ANSWER]
#
# Their requests are among those of the session (05-permissions.sh) and carry the name of who asks as `agent`:
# `explore-1`, say. They can be answered in any order, each by its `request_id`; all other subagents go on meanwhile.
# ANSWER is JSON, as in 28-question.sh. A request for a permission takes 06-answer.sh, as any other does.
set -eu
[ $# -eq 1 ] || [ $# -eq 3 ] || { echo "usage: sh 35-subagents.sh SESSION [REQUEST ANSWER]" >&2; exit 2; }
path="/v1/sessions/$1/permissions"
if [ $# -eq 3 ]; then
    path="$path/$2"
    set -- --header 'Content-Type: application/json' --data "{\"allow\": true, \"answer\": $3}"
else
    set --
fi
curl --silent --show-error --fail-with-body --config - "$@" "$AGENTCORE_URL$path" <<END
header = "Authorization: Bearer $AGENTCORE_TOKEN"
END
