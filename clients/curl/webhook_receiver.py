"""A receiver for 37-webhook.sh: prints a line whenever an agent needs a person. `python3 webhook_receiver.py 8099`"""

import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        told = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        where = f"session {told['session_id']} in {told['cwd']}"
        print(f"{told['notification_type']}: {where}: {told['message']}", flush=True)
        self.send_response(204)  # what it answers changes nothing: a notification asks for nothing
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing else."""


server = HTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver)
print(f"waiting at http://127.0.0.1:{server.server_port}/", flush=True)
server.serve_forever()
