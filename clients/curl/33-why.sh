#!/bin/sh
# Ask why a session is not moving: `waiting_for` is model, tool, permission, question, retry, mcp, queue or nothing,
# `since` when (in Unix seconds; of a model: when it was last heard), and `detail` says what can be done about it, and
# what each of its subagents waits for.
#
#   sh 33-why.sh [SESSION]
set -eu
session=${1:-latest}
curl --silent --show-error --fail-with-body --config - "$AGENTCORE_URL/v1/sessions/$session/why" <<END
header = "Authorization: Bearer $AGENTCORE_TOKEN"
END
