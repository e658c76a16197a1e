#!/bin/sh
# Show a picture to the model: upload it, then send a prompt that names it. Comes back at once, as 04-prompt.sh.
#
#   sh 16-image.sh SESSION TEXT [PNG]
#
# Without a file it sends one red pixel. The upload is answered with the name of the bytes, `blob`; a picture that is
# too large for some model is made smaller first. A file in the session's folder needs no upload: attach {"path": "…"}.
set -eu
[ $# -ge 2 ] || { echo "usage: sh 16-image.sh SESSION TEXT [PNG]" >&2; exit 2; }
session=$1 picture=${3:-}
json=$(printf '%s' "$2" | sed 's/[\\"]/\\&/g')
if [ -z "$picture" ]; then
    picture=$(mktemp)
    trap 'rm -f "$picture"' EXIT
    printf '\211PNG\015\012\032\012\000\000\000\015IHDR\000\000\000\001\000\000\000\001\010\002' >"$picture"
    printf '\000\000\000\220wS\336\000\000\000\014IDATx\234c\370\317\300\000\000\003\001\001\000' >>"$picture"
    printf '\311\376\222\357\000\000\000\000IEND\256B`\202' >>"$picture"
fi
stored=$(curl --silent --show-error --fail-with-body --config - \
    --header 'Content-Type: image/png' --data-binary "@$picture" \
    "$AGENTCORE_URL/v1/sessions/$session/blobs" <<END
header = "Authorization: Bearer $AGENTCORE_TOKEN"
END
) || { printf '%s\n' "$stored"; exit 22; }
blob=$(printf '%s' "$stored" | sed 's/.*"blob": *"\([0-9a-f]*\)".*/\1/')
curl --silent --show-error --fail-with-body --config - \
    --header 'Content-Type: application/json' \
    --data "{\"text\": \"$json\", \"attachments\": [{\"blob\": \"$blob\"}]}" \
    "$AGENTCORE_URL/v1/sessions/$session/prompt" <<END
header = "Authorization: Bearer $AGENTCORE_TOKEN"
END
