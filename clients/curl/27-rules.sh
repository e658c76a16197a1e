#!/bin/sh
# List the permission rules that stand: what you granted to a session, what `always` wrote down, what your settings and
# the repository say. With an id, take a grant back, or a rule that `always` wrote; it holds no more from then on.
#
#   sh 27-rules.sh [ID]
set -eu
case ${1:-} in '') set -- '' ;; *) set -- "/$1" --request DELETE ;; esac
path=$1
shift
curl --silent --show-error --fail-with-body --config - "$@" "$AGENTCORE_URL/v1/permissions/rules$path" <<END
header = "Authorization: Bearer $AGENTCORE_TOKEN"
END
