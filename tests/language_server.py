"""A language server for tests, well-behaved or not, as a program: `language_server.py <log> [trait …]`.

It speaks the protocol with code of its own, so that a mistake of the client's is not made twice. In its language a
line with `BAD` has an error there, `ODD` a warning; every `name` means the first one of its file; `name` can be
renamed. All that it is sent is written to the log, a line of JSON each.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

LOG, *TRAITS = sys.argv[1:]
ENCODING = "utf-8" if "utf-8" in TRAITS else "utf-16"
texts: dict[str, str] = {}
versions: dict[str, int] = {}
waiting: dict[str, Any] = {}
AWAKE = Path(f"{LOG}.wake")
"""While it is not there, a server that hangs does nothing."""


def say(message: dict[str, Any]) -> None:
    body = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\r\nContent-Type: x\r\n\r\n%b" % (len(body), body))
    sys.stdout.buffer.flush()


def receive() -> dict[str, Any] | None:
    length = 0
    while line := sys.stdin.buffer.readline():
        if not line.strip():
            message: dict[str, Any] = json.loads(sys.stdin.buffer.read(length))
            with Path(LOG).open("a") as log:
                log.write(json.dumps(message) + "\n")
            return message
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    return None


def units(text: str) -> int:
    return len(text.encode()) if ENCODING == "utf-8" else len(text.encode("utf-16-le")) // 2


def spans(text: str, word: str) -> list[dict[str, Any]]:
    """Where a word stands, each at most once a line."""
    found = []
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n")):
        before, seen, _ = line.partition(word)
        if seen:
            start = units(before)
            ends = ({"line": number, "character": at} for at in (start, start + units(word)))
            found.append(dict(zip(("start", "end"), ends, strict=True)))
    return found


def diagnostics(uri: str) -> list[dict[str, Any]]:
    text = texts.get(uri, "")
    marks = (("BAD", 1), ("ODD", 2), ("HINT", 4))
    return [
        {"range": span, "severity": severity, "message": f"{word}\nhere", "source": "fake", "code": severity}
        for word, severity in marks
        for span in spans(text, word)
    ]


def publish(uri: str) -> None:
    if "mute" in TRAITS or "pull" in TRAITS or "pull-later" in TRAITS:
        return
    say_about: dict[str, Any] = {"uri": uri, "diagnostics": diagnostics(uri)}
    if "stale" in TRAITS:
        say_about["version"] = versions[uri]
    if "pieces" in TRAITS:  # syntax first, and types when they are known
        say({"method": "textDocument/publishDiagnostics", "params": {"uri": uri, "diagnostics": []}})
        time.sleep(0.05)
    say({"method": "textDocument/publishDiagnostics", "params": say_about})
    if "stale" in TRAITS:  # about this text, and then about the one before
        old = {"uri": uri, "diagnostics": [], "version": versions[uri] - 1}
        say({"method": "textDocument/publishDiagnostics", "params": old})


def initialize(params: dict[str, Any]) -> Any:
    if "hang-at-start" in TRAITS:
        while True:
            receive()
    if "nonsense-at-start" in TRAITS:
        return [1, 2]
    if "child" in TRAITS:
        subprocess.Popen(["sleep", "1000"], start_new_session=True, env={**os.environ, "STARTED_BY": LOG})
    if "progress" in TRAITS:
        say({"method": "$/progress", "params": {"token": "index", "value": {"kind": "begin"}}})
    names = "definition references hover documentSymbol workspaceSymbol rename codeAction"
    capabilities: dict[str, Any] = {f"{name}Provider": True for name in names.split()}
    capabilities["textDocumentSync"] = {"openClose": True, "change": 1, "save": True}
    if ENCODING != "utf-16":
        capabilities["positionEncoding"] = ENCODING
    if "utf-32" in TRAITS:
        capabilities["positionEncoding"] = "utf-32"
    if "pull" in TRAITS:
        capabilities["diagnosticProvider"] = {"identifier": "fake"}
    return {"capabilities": capabilities}


def answer(method: str, params: dict[str, Any]) -> Any:
    uri = params.get("textDocument", {}).get("uri", "")
    match method:
        case "initialize":
            return initialize(params)
        case "textDocument/definition":
            first = spans(texts[uri], "name")[0]
            return [{"targetUri": uri, "targetSelectionRange": first, "targetRange": first}]
        case "textDocument/references":
            outside = {"uri": "file:///etc/hostname", "range": spans("name", "name")[0]}
            return [*({"uri": uri, "range": span} for span in spans(texts[uri], "name")), outside]
        case "textDocument/hover":
            return hover(params)
        case "textDocument/documentSymbol":
            span = spans(texts[uri], "name")[0]
            child = {"name": "inner", "kind": 13, "range": span, "selectionRange": span}
            return [{"name": "name", "kind": 12, "range": span, "selectionRange": span, "children": [child]}]
        case "workspace/symbol":
            return [{"name": params["query"], "kind": 5, "location": {"uri": uri_of("a.fake"), "range": None}}]
        case "textDocument/diagnostic":
            if "hang-when-asked" in TRAITS:
                hang()
            if "unchanged" in TRAITS and params.get("previousResultId") == "r1":
                return {"kind": "unchanged", "resultId": "r1"}
            return {"kind": "full", "items": diagnostics(uri), "resultId": "r1"}
        case "textDocument/rename":
            edits = [{"range": span, "newText": params["newName"]} for span in spans(texts[uri], "name")]
            if "moves" in TRAITS:
                return {"documentChanges": [{"kind": "rename", "oldUri": uri, "newUri": uri + "x"}]}
            where = "file:///etc/hostname" if "elsewhere" in TRAITS else uri
            return {"documentChanges": [{"textDocument": {"uri": where, "version": 1}, "edits": edits}]}
        case "textDocument/codeAction":
            edits = [{"range": span, "newText": "GOOD"} for span in spans(texts[uri], "BAD")]
            fix = {"title": "Make it good", "kind": "quickfix", "edit": {"changes": {uri: edits}}}
            return [fix, {"title": "Do it there", "command": "there"}] if params["context"]["diagnostics"] else None
        case _:
            return None


def uri_of(name: str) -> str:
    return Path(name).absolute().as_uri()


def hover(params: dict[str, Any]) -> Any:
    if "die-in-hover" in TRAITS:
        os._exit(3)
    if "flood" in TRAITS:
        for number in range(20_000):
            say({"method": "window/logMessage", "params": {"type": 4, "message": "x" * 200, "number": number}})
    if "wrong-ids" in TRAITS:
        wrong: Any
        for wrong in (None, "1", 999, -1, 1.5, [], {}):
            say({"id": wrong, "result": {"contents": "wrong"}})
        sys.stdout.buffer.write(b"Content-Length: 3\r\n\r\n{]}" + b"Content-Length: 2\r\n\r\n[]")
    if "huge" in TRAITS:
        sys.stdout.buffer.write(b"Content-Length: 99999999999\r\n\r\n")
        sys.stdout.buffer.flush()
    if "garbage" in TRAITS:
        sys.stdout.buffer.write(b"Traceback\n" * 1000)
        sys.stdout.buffer.flush()
    if "mute-in-hover" in TRAITS:
        waiting["hover"] = True
        return None
    if "asks" in TRAITS:
        items = [{"section": "fake.deep"}, {"section": "none"}, {}]
        ask("workspace/configuration", {"items": items})
        edit: dict[str, Any] = {"changes": {"file:///tmp/x": []}}
        ask("workspace/applyEdit", {"edit": edit})
        ask("window/workDoneProgress/create", {"token": "t"})
        ask("made/up", {})
    position = params["position"]
    return {"contents": [{"language": "fake", "value": f"{position['line']}:{position['character']}"}, "words"]}


def hang() -> None:
    while not AWAKE.exists():
        time.sleep(0.01)


def ask(method: str, params: dict[str, Any]) -> None:
    """Ask the client; its answer is the next thing that it says."""
    say({"id": f"ask-{method}", "method": method, "params": params})
    receive()


def told(method: str, params: dict[str, Any]) -> None:
    document = params.get("textDocument", {})
    match method:
        case "initialized" if "pull-later" in TRAITS:
            one = {"id": "d1", "method": "textDocument/diagnostic", "registerOptions": {"identifier": "fake"}}
            ask("client/registerCapability", {"registrations": [one]})
        case "textDocument/didOpen" if "die-when-opened" in TRAITS:
            os._exit(3)
        case "textDocument/didOpen":
            if "hang-when-opened" in TRAITS and "ready" not in document["uri"]:
                hang()
            texts[document["uri"]], versions[document["uri"]] = document["text"], document["version"]
            publish(document["uri"])
        case "textDocument/didChange":
            texts[document["uri"]] = params["contentChanges"][0]["text"]
            versions[document["uri"]] = document["version"]
            publish(document["uri"])
        case "textDocument/didClose":
            del texts[document["uri"]]
        case "exit":
            sys.exit(0)
        case _:
            pass


def main() -> None:
    print("a warning before the first message", file=sys.stderr)
    if "die-at-start" in TRAITS:
        sys.exit(1)
    while (message := receive()) is not None:
        method, params = message.get("method"), message.get("params", {})
        if "id" not in message:
            told(str(method), params)
        elif method == "shutdown" and "params" in message:
            say({"id": message["id"], "error": {"code": -32602, "message": "params"}})
        elif method is not None:
            result = answer(method, params)
            if not waiting.pop("hover", False):
                say({"id": message["id"], "result": result})
    if "stays" in TRAITS:  # whatever becomes of who started it
        time.sleep(1000)


if __name__ == "__main__":
    main()
