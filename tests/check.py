"""The one command before each commit: format, lint, strict types, `openapi.yaml` in step, tests.

`python -m tests.check` runs all of it and stops at the first step that fails. Arguments go to pytest.
"""

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

STEPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("format", ("-m", "ruff", "format", "--check", ".")),
    ("lint", ("-m", "ruff", "check", ".")),
    ("types", ("-m", "mypy")),
    ("openapi.yaml in step", ("-m", "server.openapi", "--check")),
    ("tests", ("-m", "pytest", "-n", "2")),
)


def main(extra: list[str]) -> int:
    for name, command in STEPS:
        arguments = [*command, *extra] if name == "tests" else list(command)
        print(f"== {name}", flush=True)
        began = time.monotonic()
        code = subprocess.run([sys.executable, *arguments], cwd=ROOT, check=False).returncode
        print(f"== {name}: {'ok' if code == 0 else 'FAILED'} ({time.monotonic() - began:.1f} s)", flush=True)
        if code != 0:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
