#!/bin/sh
# Watch what happens in a session, from now on: first a snapshot, then every event as it comes. Ctrl-C ends it.
#
#   sh 03-stream.sh [SESSION]
#
# `--no-buffer` shows each event at once. Lines that begin with `:` are comments; one comes every 15 s to keep the
# connection alive.
set -eu
session=${1:-latest}
curl --silent --show-error --fail-with-body --no-buffer --config - "$AGENTCORE_URL/v1/sessions/$session/events" <<END
header = "Authorization: Bearer $AGENTCORE_TOKEN"
END
