"""What this client tells a server that it can do."""

from typing import Any

from agentcore.lsp.answers import KINDS


def client_capabilities() -> dict[str, Any]:
    """No dynamic file watching: servers then watch for themselves. No resource operations: edits change texts only."""
    kinds = {"valueSet": list(range(1, len(KINDS)))}
    dynamic = {"dynamicRegistration": True}
    return {
        "general": {"positionEncodings": ["utf-8", "utf-16"]},
        "window": {"workDoneProgress": True, "showMessage": {}, "showDocument": {"support": False}},
        "workspace": {
            "applyEdit": False,
            "configuration": True,
            "workspaceFolders": True,
            "didChangeConfiguration": dynamic,
            "symbol": {**dynamic, "symbolKind": kinds},
            "workspaceEdit": {"documentChanges": True, "resourceOperations": []},
            "diagnostics": {"refreshSupport": True},
        },
        "textDocument": {
            "synchronization": {**dynamic, "didSave": True},
            "definition": {**dynamic, "linkSupport": True},
            "references": dynamic,
            "hover": {**dynamic, "contentFormat": ["markdown", "plaintext"]},
            "documentSymbol": {**dynamic, "symbolKind": kinds, "hierarchicalDocumentSymbolSupport": True},
            "rename": {**dynamic, "prepareSupport": False},
            "codeAction": {
                **dynamic,
                "codeActionLiteralSupport": {"codeActionKind": {"valueSet": ["quickfix", "refactor", "source"]}},
                "dataSupport": True,
                "resolveSupport": {"properties": ["edit"]},
                "isPreferredSupport": True,
            },
            "publishDiagnostics": {"versionSupport": True, "relatedInformation": False, "dataSupport": True},
            "diagnostic": {**dynamic, "relatedDocumentSupport": False},
        },
    }
