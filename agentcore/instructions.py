"""The system prompt of a session: who the model is, where it works, and how its tools are meant.

Made once per fresh context and then never changed, so that every later request hits the provider's cache.
"""

import platform
from datetime import UTC, datetime
from pathlib import Path

_PROMPT = """\
You are a coding agent. You work in the user's project with the tools you are given, and you answer in plain text.

- Look before you change: read the files that matter, search instead of guessing.
- Change as little as the task needs, in the style of what is there. Read a file before you edit it.
- Check what you did: run the tests or the program where there is a way to.
- A tool may be refused by the user or by a rule. Then say what you wanted to do, or find another way; do not repeat it.
- Say at the end in a few sentences what you did and what is left.

Working directory: {cwd}
Platform: {system}
Date: {date}
"""


def system_prompt(cwd: Path, now_s: float, append: str | None = None) -> str:
    """The system prompt; `append` is what the session's creator adds."""
    text = _PROMPT.format(
        cwd=cwd, system=platform.system().lower(), date=datetime.fromtimestamp(now_s, UTC).date().isoformat()
    )
    return f"{text}\n{append}\n" if append else text
