#!/bin/sh
# After the server was restarted: load the session, then go on with the run that was cut off. Without one, the second
# call says so (409, `nothing_to_resume`). A permission request that was open is open again, under the same id.
#
#   sh 13-resume.sh SESSION
set -eu
[ $# -ge 1 ] || { echo "usage: sh 13-resume.sh SESSION" >&2; exit 2; }
session=$1

post() {
    curl --silent --show-error --fail-with-body --config - \
        --header 'Content-Type: application/json' --data "$2" "$AGENTCORE_URL$1" <<END
header = "Authorization: Bearer $AGENTCORE_TOKEN"
END
}

post /v1/sessions "{\"resume\": \"$session\"}"
echo
post "/v1/sessions/$session/resume" '{}'
