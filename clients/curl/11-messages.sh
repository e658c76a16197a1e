#!/bin/sh
# Read the history. A stream that starts after its `last_seq` (see 08-reconnect.sh) misses and repeats nothing of it.
#
#   sh 11-messages.sh [SESSION] [AFTER_SEQ]
set -eu
session=${1:-latest} after=${2:-0}
curl --silent --show-error --fail-with-body --config - \
    "$AGENTCORE_URL/v1/sessions/$session/messages?after_seq=$after" <<END
header = "Authorization: Bearer $AGENTCORE_TOKEN"
END
