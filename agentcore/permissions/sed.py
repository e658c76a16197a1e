"""Scripts of `sed`: which ones neither run a command nor write a file of their own choice."""

import re
from collections.abc import Sequence

from agentcore.permissions.words import HOLE

_SED_ADDRESS = r"(?:\d+|\$|/[^/\n\\]*/)"
_SED_COMMAND = re.compile(rf"(?:{_SED_ADDRESS}(?:,[+~]?{_SED_ADDRESS})?)?!? *[pdqlD=] *")
_SED_CHANGE = re.compile(
    rf"(?:{_SED_ADDRESS}(?:,{_SED_ADDRESS})?)? *s([/|,#:])"
    r"(?:(?!\1)[^\n\\]|\\[^\n])*\1(?:(?!\1)[^\n\\]|\\[^\n])*\1[gpiI\d]*"
)


def is_plain_sed(values: Sequence[str]) -> bool:
    """Whether the script neither runs a command nor writes a file of its own choice. Scripts in files are not read."""
    scripts, at = [], 0
    while at < len(values):
        value = values[at]
        if value in ("-e", "--expression"):
            scripts.append(values[at + 1] if at + 1 < len(values) else "e")
            at += 1
        elif value.startswith("-") and not re.fullmatch(r"-[nErsuz]+|-i(\.\w+)?|-ni|--quiet|--silent|--posix", value):
            return False
        elif not value.startswith("-") and not scripts:
            scripts.append(value)
        at += 1
    if any(HOLE in script for script in scripts):
        return False
    return all(_SED_CHANGE.fullmatch(one) or all(map(_SED_COMMAND.fullmatch, one.split(";"))) for one in scripts)
