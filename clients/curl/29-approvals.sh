#!/bin/sh
# Hooks and MCP servers that come with a repository run on your word alone. List them, each with all that it says; with
# an id and a word decide about one. Whatever is changed in the repository afterwards has another id, and waits again.
#
#   sh 29-approvals.sh [ID allow|deny]
set -eu
case ${2:-} in
allow) set -- "/$1" --data '{"allow": true}' ;;
deny) set -- "/$1" --data '{"allow": false}' ;;
'') set -- '' ;;
*) echo "allow or deny?" >&2 && exit 2 ;;
esac
path=$1
shift
curl --silent --show-error --fail-with-body --config - \
    --header 'Content-Type: application/json' "$@" "$AGENTCORE_URL/v1/approvals$path" <<END
header = "Authorization: Bearer $AGENTCORE_TOKEN"
END
