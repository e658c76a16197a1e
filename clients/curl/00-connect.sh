#!/bin/sh
# Find a running server by the file it leaves for its user, and print the two variables that all recipes read.
#
#   eval "$(sh 00-connect.sh [SECONDS])"
#
# The server that has this folder below one of its roots (the nearest one) comes first, else the youngest. Where none
# runs, it is waited for, 5 seconds unless given: it may be starting.
#
# The file is readable by you alone, and so is the environment of your shell: no other user gets to see the token.
set -eu
patience_s=${1:-5}
here=$(pwd -P)
case $(uname) in
Darwin) default="$HOME/Library/Application Support/agentcore" ;;
*) default="${XDG_STATE_HOME:-$HOME/.local/state}/agentcore" ;;
esac
servers="${AGENTCORE_STATE_DIR:-$default}/servers"

field() { sed -n "s/.*\"$1\": *\"\\([^\"\\\\']*\\)\".*/\\1/p" "$servers/$2"; }

# One root a line, as a pattern for `case`: what JSON wrote as \u00e9 may be anything, its other escapes fit as they are.
roots() {
    sed -n 's/.*"roots": \["\(.*\)"\].*/\1/p' "$servers/$1" | sed -e 's/\\u[0-9a-f]\{4\}/*/g' -e 's/\[/\\[/g' -e 's/", "/\
/g'
}

# How long the longest root is that holds this folder; 0 when none does.
nearness() {
    roots "$1" | (
        longest=0
        while IFS= read -r root; do
            case $here/ in
            ${root%/}/*) [ ${#root} -le $longest ] || longest=${#root} ;;
            esac
        done
        echo $longest
    )
}

# Sets `found` to the file of the best server, and `socket` to the address of one that curl cannot have as an address.
look() {
    found='' socket='' best=-1
    for file in $(ls -t -- "$servers" 2>/dev/null); do # the youngest first; the names are numbers
        case $file in *.json) ;; *) continue ;; esac
        kill -0 "${file%.json}" 2>/dev/null || continue # its process is gone
        ! grep -q '^State:[[:space:]]*[ZX]' "/proc/${file%.json}/status" 2>/dev/null || continue # it has ended
        url=$(field url "$file")
        case $url in http+unix://*) socket=${socket:-${url#http+unix://}} && continue ;; esac
        near=$(nearness "$file")
        [ "$near" -le $best ] || { best=$near found=$file; }
    done
}

look
while [ -z "$found$socket" ] && [ "$patience_s" -gt 0 ]; do
    sleep 1
    patience_s=$((patience_s - 1))
    look
done
if [ -n "$found" ]; then
    printf "export AGENTCORE_URL='%s'\n" "$(field url "$found")"
    printf "export AGENTCORE_TOKEN='%s'\n" "$(field token "$found")"
    exit 0
fi
if [ -n "$socket" ]; then
    path=$(printf '%s' "$socket" | sed -e 's/%2F/\//g' -e 's/%20/ /g')
    echo "The server listens on a Unix socket: use curl --unix-socket '$path' ... http://localhost/v1/..." >&2
else
    echo "No server is running. Start one with: agentcore serve" >&2
fi
exit 1
