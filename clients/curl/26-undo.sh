#!/bin/sh
# Take back what the last run did to files; once more for the run before. Runs that left every file as it was are passed
# over. A file that was changed since stays as it is and is told under `skipped`. With `dry` nothing is touched: the
# answer tells what would be.
#
#   sh 26-undo.sh [SESSION] [dry]
set -eu
session=${1:-latest}
case ${2:-} in dry) body='{"dry_run": true}' ;; *) body='{}' ;; esac
curl --silent --show-error --fail-with-body --config - \
    --header 'Content-Type: application/json' --data "$body" "$AGENTCORE_URL/v1/sessions/$session/undo" <<END
header = "Authorization: Bearer $AGENTCORE_TOKEN"
END
