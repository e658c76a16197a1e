#!/bin/sh
# Save a session as a file: jsonl (every event), json (its messages) or markdown (to read). Keys that look like such are
# taken out.
#
#   sh 24-export.sh [SESSION] [FORMAT] [FILE]
set -eu
session=${1:-latest}
format=${2:-markdown}
file=${3:-session-$session.$format}
[ -d "$(dirname "$file")" ] || { echo "There is no folder $(dirname "$file")." >&2; exit 2; }
if ! curl --silent --show-error --fail-with-body --config - --output "$file.part" \
    "$AGENTCORE_URL/v1/sessions/$session/export?format=$format" <<END; then
header = "Authorization: Bearer $AGENTCORE_TOKEN"
END
    cat "$file.part"
    rm -f "$file.part"
    exit 22
fi
mv "$file.part" "$file"
echo "$file"
