#!/bin/sh
# Watch all sessions on one connection, those that come later included, and lose nothing: come back after every cut,
# also after the end of this script, where it left off. Prints the JSON of each event on a line of its own.
#
#   sh 31-all-events.sh [FILE [SESSION,SESSION...]]
#
# FILE holds the cursor, the last number of each session (`a:12,b:90`). It comes a moment behind what happens, so whoever
# kills this script sees some events twice rather than never: drop those that are not above the last `seq` of their
# `session`. An empty file starts with everything since the sessions were loaded; so does a session that is not among the
# 1000 that the cursor names. With names, only those sessions come.
set -eu
file=${1:-last-cursor} sessions=${2:+&sessions=$2}
[ -e "$file" ] || : >"$file"

read_events() {
    id='' data=''
    while IFS= read -r line; do
        case $line in
        'id: '*) id=${line#id: } ;;
        'data: '*) data=${line#data: } ;;
        '') # the block is whole: an event, the cursor alone, or a comment
            [ -z "$data" ] || printf '%s\n' "$data"
            [ -z "$id" ] || echo "$id" >"$file"
            id='' data=''
            ;;
        esac
    done
    case $line in
    '{'*) printf '%s\n' "$line" >&2 && return 4 ;; # no stream but a refusal, which ends without a line end
    esac
}

follow() {
    curl --silent --fail-with-body --no-buffer --config - \
        "$AGENTCORE_URL/v1/events?after=$(cat "$file")$sessions" <<END | read_events
header = "Authorization: Bearer $AGENTCORE_TOKEN"
END
}

while :; do
    status=0
    follow || status=$?
    [ "$status" != 4 ] || exit 1
    sleep 1
done
