"""What a server can do: what it said at its start, and what it registered or took back later."""

from collections.abc import Mapping
from typing import Any

from agentcore.lsp.answers import dicts

MAX_REGISTRATIONS = 500

PROVIDERS = {
    "textDocument/definition": "definitionProvider",
    "textDocument/references": "referencesProvider",
    "textDocument/hover": "hoverProvider",
    "textDocument/documentSymbol": "documentSymbolProvider",
    "workspace/symbol": "workspaceSymbolProvider",
    "textDocument/diagnostic": "diagnosticProvider",
    "textDocument/rename": "renameProvider",
    "textDocument/codeAction": "codeActionProvider",
}


class Capabilities:
    def __init__(self) -> None:
        self._static: Mapping[str, Any] = {}
        self._registered: dict[str, tuple[str, Any]] = {}
        """Method and options, by the server's own id for it."""

    def start(self, static: object) -> None:
        self._static = static if isinstance(static, Mapping) else {}

    @property
    def encoding(self) -> str:
        """Of positions; a server that says nothing means UTF-16."""
        return str(self._static.get("positionEncoding") or "utf-16")

    @property
    def is_told_of_saving(self) -> bool:
        sync = self._static.get("textDocumentSync")
        return isinstance(sync, Mapping) and bool(sync.get("save"))

    def has(self, method: str) -> bool:
        return self.options(method) is not None

    def options(self, method: str) -> Any:
        """What was said about a method; None when the server does not have it."""
        for registered, options in self._registered.values():
            if registered == method:
                return options or {}
        said = self._static.get(PROVIDERS[method])
        return {} if said is True else said or None

    def register(self, params: Any) -> None:
        for one in dicts(params.get("registrations") if isinstance(params, Mapping) else None):
            key, method = one.get("id"), one.get("method")
            if isinstance(key, str) and isinstance(method, str) and len(self._registered) < MAX_REGISTRATIONS:
                self._registered[key] = method, one.get("registerOptions")

    def unregister(self, params: Any) -> None:
        # "unregisterations" is how the protocol spells it
        for one in dicts(params.get("unregisterations") if isinstance(params, Mapping) else None):
            self._registered.pop(str(one.get("id")), None)
