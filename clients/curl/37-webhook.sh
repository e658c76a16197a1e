#!/bin/sh
# Be told when an agent needs you: what to put into the server's settings.toml, so that it sends a POST to an address
# of yours whenever a permission, a plan, a question or the budget waits for a person, and never otherwise. It counts
# for sessions that begin or are loaded from then on.
#
#   mkdir -p ~/.config/agentcore
#   sh 37-webhook.sh URL >> ~/.config/agentcore/settings.toml
#
# Any receiver will do that takes JSON; `python3 webhook_receiver.py 8099` is one to begin with. The matcher can name
# `idle_prompt` as well ("permission_prompt|idle_prompt"): then you also hear of sessions that wait for a prompt.
set -eu
[ $# -eq 1 ] || { echo "usage: sh 37-webhook.sh URL (of your receiver, such as http://127.0.0.1:8099/)" >&2; exit 2; }
url=$1
case $url in
*[\"\\]*) echo "the address must hold no quote and no backslash" >&2 && exit 2 ;;
esac
cat <<END

[[hooks.Notification]]
matcher = "permission_prompt"
[[hooks.Notification.hooks]]
type = "http"
url = "$url"
timeout = 10
END
