#!/bin/sh
# Is the server there? The one call that needs no token.
set -eu
curl --silent --show-error --fail-with-body "$AGENTCORE_URL/v1/health"
