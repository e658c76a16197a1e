#!/bin/sh
# Answer a question of the model's (a request of the kind `question`; 05-permissions.sh lists it with its `options`).
#
#   sh 28-question.sh SESSION REQUEST ANSWER
#
# The answer is JSON: '"red"' for one of the options, '["api", "web"]' where several may be chosen, true or false for
# yes or no, '"any text"' where it is asked in words; for several questions a list in their order, or an object by
# header. To refuse, use 06-answer.sh with `deny`.
set -eu
[ $# -ge 3 ] || { echo "usage: sh 28-question.sh SESSION REQUEST ANSWER" >&2; exit 2; }
curl --silent --show-error --fail-with-body --config - \
    --header 'Content-Type: application/json' --data "{\"allow\": true, \"answer\": $3}" \
    "$AGENTCORE_URL/v1/sessions/$1/permissions/$2" <<END
header = "Authorization: Bearer $AGENTCORE_TOKEN"
END
