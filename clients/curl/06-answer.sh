#!/bin/sh
# Answer a request. The first answer wins; whoever comes later is told so (409, `already_resolved`).
#
#   sh 06-answer.sh SESSION REQUEST allow|deny|always [DIGEST]
#
# `always` allows the same kind of call for the rest of the session. With the digest of the request, the server refuses
# an answer that was meant for something else (409, `stale_request`).
set -eu
[ $# -ge 3 ] || { echo "usage: sh 06-answer.sh SESSION REQUEST allow|deny|always [DIGEST]" >&2; exit 2; }
session=$1 request=$2 digest=${4:+, \"digest\": \"$4\"}
case $3 in
allow) answer='"allow": true' ;;
deny) answer='"allow": false, "reason": "Not now."' ;;
always) answer='"allow": true, "always": true, "scope": "session"' ;;
*) echo "allow, deny or always?" >&2 && exit 2 ;;
esac
curl --silent --show-error --fail-with-body --config - \
    --header 'Content-Type: application/json' --data "{$answer$digest}" \
    "$AGENTCORE_URL/v1/sessions/$session/permissions/$request" <<END
header = "Authorization: Bearer $AGENTCORE_TOKEN"
END
