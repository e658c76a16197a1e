#!/bin/sh
# Watch a session and lose nothing: come back after every cut, also after the end of this script, where it left off.
# Prints the JSON of each event on a line of its own.
#
#   sh 08-reconnect.sh SESSION [FILE]
#
# FILE holds the number of the last event that was handled. It is written after the event was printed, so whoever
# kills this script sees the last event twice rather than never. An empty file starts with the first event.
set -eu
[ $# -ge 1 ] || { echo "usage: sh 08-reconnect.sh SESSION [FILE]" >&2; exit 2; }
session=$1 file=${2:-last-event-id}
[ -e "$file" ] || echo 0 >"$file"

read_events() {
    id='' kind='' data=''
    while IFS= read -r line; do
        case $line in
        'id: '*) id=${line#id: } ;;
        'event: '*) kind=${line#event: } ;;
        'data: '*) data=${line#data: } ;;
        '') # the event is whole; without data it was a comment
            [ -z "$data" ] || printf '%s\n' "$data"
            [ -z "$id" ] || echo "$id" >"$file"
            [ "$kind" != session_closed ] || return 3
            id='' kind='' data=''
            ;;
        esac
    done
    case $line in
    '{'*) printf '%s\n' "$line" >&2 && return 4 ;; # no stream but a refusal, which ends without a line end
    esac
}

follow() {
    curl --silent --fail-with-body --no-buffer --config - "$AGENTCORE_URL/v1/sessions/$session/events" <<END | read_events
header = "Authorization: Bearer $AGENTCORE_TOKEN"
header = "Last-Event-ID: $(cat "$file")"
END
}

while :; do
    status=0
    follow || status=$?
    case $status in
    3) exit 0 ;;
    4) exit 1 ;;
    esac
    sleep 1
done
