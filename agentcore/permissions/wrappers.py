"""Looking through what stands around a command: `timeout 5 git status` is `git status`.

For an allow rule: only what changes nothing is taken off, and only where its options are understood. What deny and ask
look into is in `inner`.
"""

import re
from collections.abc import Sequence

from agentcore.permissions.programs import is_safe_variable
from agentcore.permissions.shell import Segment
from agentcore.permissions.words import HOLE, Word

_DURATION = r"\d+(?:\.\d+)?[smhd]?"
# A wrapper and all the words of its own, each with a blank behind it.
_WRAPPERS = tuple(
    re.compile(pattern)
    for pattern in (
        rf"timeout (?:(?:--foreground|--preserve-status|-v|--verbose|-k {_DURATION}|--kill-after={_DURATION}"
        rf"|-s \w+|--signal=\w+) )*{_DURATION} ",
        r"time (?:-p )?",
        r"nice (?:-n -?\d+ |-\d+ |--adjustment=-?\d+ )?",
        r"nohup ",
        r"stdbuf (?:(?:-[ioe][L\d]\w*|--(?:input|output|error)=[L\d]\w*) )+",
        r"command (?!-)",
        r"builtin (?!-)",
        r"noglob ",
        r"xargs (?!-)",
    )
)
MORE_ARGUMENTS = Word(HOLE, HOLE)
"""What `xargs` adds."""


def unwrapped(segment: Segment) -> Segment:
    """The command inside its wrappers, without assignments that are safe: what an allow rule is compared with."""
    words = segment.words
    assignments = tuple(one for one in segment.assignments if not is_safe_variable(one.name))
    while (count := _own_words(words)) and count < len(words):
        more = (MORE_ARGUMENTS,) if words[0].raw == "xargs" else ()
        words = words[count:] + more
    return Segment(words, assignments, segment.is_special)


def _own_words(words: Sequence[Word]) -> int:
    """How many words at the head belong to a wrapper."""
    text = " ".join(word.raw for word in words)
    for pattern in _WRAPPERS:
        if (match := pattern.match(text)) is not None:
            count = match[0].count(" ")
            return count if all(word.is_plain for word in words[:count]) else 0
    return 0
