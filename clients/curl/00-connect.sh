#!/bin/sh
# Find a running server by the file it leaves for its user, and print the two variables that all recipes read.
#
#   eval "$(sh 00-connect.sh)"
#
# The file is readable by you alone, and so is the environment of your shell: no other user gets to see the token.
set -eu
case $(uname) in
Darwin) default="$HOME/Library/Application Support/agentcore" ;;
*) default="${XDG_STATE_HOME:-$HOME/.local/state}/agentcore" ;;
esac
cd "${AGENTCORE_STATE_DIR:-$default}/servers"

field() { sed -n "s/.*\"$1\": *\"\\([A-Za-z0-9:/._~+=-]*\\)\".*/\\1/p" "$2"; }

for file in $(ls -t -- *.json); do # the youngest first; the names are numbers
    kill -0 "${file%.json}" 2>/dev/null || continue # its process is gone
    printf "export AGENTCORE_URL='%s'\n" "$(field url "$file")"
    printf "export AGENTCORE_TOKEN='%s'\n" "$(field token "$file")"
    exit 0
done
echo "No server is running. Start one with: agentcore serve" >&2
exit 1
