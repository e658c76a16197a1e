"""Runs a command until standard input ends, and kills it then: `python -m agentcore_selfcheck.leash COMMAND …`.

Who holds the other end of that pipe can be killed at any time, and nobody else would end what he started. Nothing else
tells that on every system.
"""

import subprocess
import sys
import threading
from collections.abc import Sequence


def main(command: Sequence[str]) -> int:
    """Return the exit code of the command. Its output is ours; it has no input."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as process:
        threading.Thread(target=_kill_at_end, args=(process,), daemon=True).start()
        return process.wait()


def _kill_at_end(process: subprocess.Popen[bytes]) -> None:
    while sys.stdin.buffer.read(4096):
        pass
    process.kill()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
