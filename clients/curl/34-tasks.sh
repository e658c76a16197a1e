#!/bin/sh
# Show what goes on in the background of a session, and what the last of it came to; with a task's id, end that one.
#
#   sh 34-tasks.sh SESSION [TASK_ID]
#
# The model is told of each end by itself: at the next border of its run, or in a run that begins for it.
set -eu
[ $# -ge 1 ] || { echo "usage: sh 34-tasks.sh SESSION [TASK_ID]" >&2; exit 2; }
session=$1
case ${2:-} in
'') set -- "$AGENTCORE_URL/v1/sessions/$session/tasks" ;;
*) set -- --request DELETE "$AGENTCORE_URL/v1/sessions/$session/tasks/$2" ;;
esac
curl --silent --show-error --fail-with-body --config - "$@" <<END
header = "Authorization: Bearer $AGENTCORE_TOKEN"
END
