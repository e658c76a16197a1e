"""An MCP server over HTTP by hand, in the older protocol, that says half a surrogate pair wherever it can.

Run as a program by the tests: `odd_web_server.py PORT HOW`, where `HOW` is `json` or `events` (how it answers a POST),
or `sse` (the older transport).
"""

import json
import queue
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT, HOW = int(sys.argv[1]), sys.argv[2]
HALF = "half \ud83d"
TOOL = {"name": "echo", "description": HALF, "inputSchema": {"type": "object"}}
sent: "queue.Queue[bytes]" = queue.Queue()


def answered(request: dict) -> dict:
    if request["method"] == "server/discover":
        return {"error": {"code": -32601, "message": "no such method"}}
    return {"result": result(request)}


def result(request: dict) -> object:
    match request["method"]:
        case "initialize":
            about = {"serverInfo": {"name": "odd", "version": "1"}, "capabilities": {"tools": {}}}
            return {"protocolVersion": "2025-06-18", **about}
        case "tools/list":
            return {"tools": [TOOL]}
        case "tools/call" if request["params"]["arguments"]:
            return [1, 2]
        case _:
            return {"content": [{"type": "text", "text": HALF}]}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if HOW != "sse":
            self.answer(405)
            return
        self.begin("text/event-stream")
        self.wfile.write(b"event: endpoint\ndata: /\n\n")
        while True:
            self.wfile.write(b"event: message\ndata: %s\n\n" % sent.get())

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "id" not in request:
            self.answer(202)
        else:
            said = json.dumps({"jsonrpc": "2.0", "id": request["id"], **answered(request)}).encode()
            if HOW == "sse":
                sent.put(said)
                self.answer(202)
            else:
                self.begin("application/json" if HOW == "json" else "text/event-stream")
                self.wfile.write(said if HOW == "json" else b"event: message\ndata: %s\n\n" % said)

    def begin(self, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()

    def answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
