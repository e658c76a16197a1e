#!/bin/sh
# Save what happened in a session as one page: prompts, model calls, tools, questions and answers, with how long each
# took. What was sent to the model is in it where the server runs with --debug, or the session was told `trace: true`.
#
#   sh 36-trace.sh [SESSION] [FILE]
set -eu
session=${1:-latest}
file=${2:-trace-$session.html}
[ -d "$(dirname "$file")" ] || { echo "There is no folder $(dirname "$file")." >&2; exit 2; }
if ! curl --silent --show-error --fail-with-body --config - --output "$file.part" \
    "$AGENTCORE_URL/v1/sessions/$session/trace" <<END; then
header = "Authorization: Bearer $AGENTCORE_TOKEN"
END
    cat "$file.part"
    rm -f "$file.part"
    exit 22
fi
chmod 600 "$file.part"
mv "$file.part" "$file"
echo "$file"
