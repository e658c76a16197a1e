"""What people are told of an MCP server: values."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

Serving: TypeAlias = Literal["connecting", "ready", "lost", "failed", "needs_login", "stopped"]
"""`lost`: it is being connected again, and what it offered still counts."""


@dataclass(frozen=True, slots=True)
class ServerState:
    name: str
    state: Serving
    tools: int
    """How many it offers now."""
    error: str | None
    """Why it is not ready, as a sentence."""
    transport: Literal["stdio", "http", "sse"]
    source: str
    """The file that names it."""
