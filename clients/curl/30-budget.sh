#!/bin/sh
# See what a session may use and has used; with a limit and a number set that limit, for this session as a whole.
#
#   sh 30-budget.sh SESSION [usd|tokens|time_s|tool_calls NUMBER|null]
#
# A limit that is reached asks, as a request of the kind `budget`: 06-answer.sh allows as much again, or ends the run;
# setting the limit higher here answers it as well. null lifts a limit. The numbers are in the field `budget`.
set -eu
[ $# -ge 1 ] || { echo "usage: sh 30-budget.sh SESSION [usd|tokens|time_s|tool_calls NUMBER|null]" >&2; exit 2; }
case ${2:-} in
usd | tokens | time_s | tool_calls) set -- "$1" --request PATCH --data "{\"budget\": {\"$2\": ${3:?a number, or null}}}" ;;
'') set -- "$1" ;;
*) echo "usd, tokens, time_s or tool_calls?" >&2 && exit 2 ;;
esac
session=$1
shift
curl --silent --show-error --fail-with-body --config - \
    --header 'Content-Type: application/json' "$@" "$AGENTCORE_URL/v1/sessions/$session" <<END
header = "Authorization: Bearer $AGENTCORE_TOKEN"
END
