#!/bin/sh
# Hand in a prompt that runs once, however often it has to be sent: a lost answer is asked for again under the same
# key, and the server gives the first one. Send the same again within ten minutes with the KEY that is printed.
#
#   sh 22-idempotent-prompt.sh SESSION TEXT [KEY]
set -eu
[ $# -ge 2 ] || { echo "usage: sh 22-idempotent-prompt.sh SESSION TEXT [KEY]" >&2; exit 2; }
session=$1
json=$(printf '%s' "$2" | sed 's/[\\"]/\\&/g')
key=${3:-$$-$(date +%s)}
echo "Idempotency-Key: $key" >&2
for pause_s in 1 2 4 8 0; do
    status=0
    curl --silent --show-error --fail-with-body --config - \
        --header 'Content-Type: application/json' --header "Idempotency-Key: $key" --data "{\"text\": \"$json\"}" \
        "$AGENTCORE_URL/v1/sessions/$session/prompt" <<END || status=$?
header = "Authorization: Bearer $AGENTCORE_TOKEN"
END
    case $status in 0 | 22) break ;; esac # it answered, if only with a refusal
    sleep $pause_s
done
exit $status
