"""What the path of `agentcore serve` imports before it answers: no vendor's SDK, nothing that is for later."""

import subprocess
import sys

FOR_LATER = frozenset(
    {
        "PIL",
        "agentcore.lsp.room",
        "agentcore.telemetry.room",
        "anthropic",
        "bs4",
        "google.genai",
        "httpcore2",
        "httpx",
        "httpx2",
        "jsonschema_rs",
        "markdownify",
        "mcp",
        "numpy",
        "openai",
        "opentelemetry",
        "phonenumbers",
        "pypdf",
        "rich",
        "stdnum",
        "yaml",
    }
)

BUILD = """
import sys, tempfile
from pathlib import Path
import server.cli, server.serve, server.daemon, server.asgi
from server.settings import ServerSettings, folders
root = Path(tempfile.mkdtemp()).resolve()
settings = ServerSettings(cwd=root, roots=(root,), folders=folders(root / "state"), token="t", model=None,
    mode="default", effort=None, unattended="wait", allow_yolo=False, allow_remote=False, allowed_hosts=(),
    allow_origins=(), debug=False)
application = server.asgi.build(settings)
print("\\n".join(sys.modules))
root.rmdir()
"""


def test_a_built_application_has_loaded_no_sdk_and_nothing_for_later() -> None:
    environment = {"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k", "GEMINI_API_KEY": "k", "PATH": "/usr/bin:/bin"}
    built = subprocess.run(
        [sys.executable, "-c", BUILD], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    loaded = set(built.stdout.split())
    assert "server.asgi" in loaded
    assert loaded & FOR_LATER == set()
