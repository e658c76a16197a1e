#!/bin/sh
# Watch only some events of a session, from its beginning: those that already happened as well as those that come.
#
#   sh 32-choose-events.sh SESSION [KIND,KIND...|all] [full|final]
#
# `permission_request,done`, say; a kind that there is not is refused (400) with a list of all. `final` leaves out what is
# for display alone, as `text_delta` is. `snapshot` and `session_closed` come whatever was chosen, and a block with
# nothing but an `id` says now and then how far the stream has come: a cursor for any stream of this session.
set -eu
[ $# -ge 1 ] || { echo "usage: sh 32-choose-events.sh SESSION [KIND,KIND...|all] [full|final]" >&2; exit 2; }
session=$1
case ${2:-all} in
all) kinds='' ;;
*) kinds="&kinds=$2" ;;
esac
curl --silent --show-error --fail-with-body --no-buffer --config - \
    "$AGENTCORE_URL/v1/sessions/$session/events?after=0&detail=${3:-full}$kinds" <<END
header = "Authorization: Bearer $AGENTCORE_TOKEN"
END
