"""What tools of a server are called here: `mcp__server__tool`, in letters that every vendor takes.

Pure functions. A name depends on nothing but what the server and its tool are called, so it is the same in each
process; two that would be the same are told apart by a digest.
"""

import hashlib
import re
from collections.abc import Iterable

PREFIX = "mcp__"
MAX_CHARS = 64
"""What vendors allow a tool's name to have."""
MAX_SERVER_CHARS = 32
_DIGEST_CHARS = 6
_STRANGE = re.compile(r"[^A-Za-z0-9_-]")


def segments(servers: Iterable[str]) -> dict[str, str]:
    """For each server, in order of precedence, its part of the names of its tools; no two have the same.

    Rules speak of it (`mcp__server`), so the first keeps the plain one: a later one cannot slip under its rules.
    """
    found: dict[str, str] = {}
    taken: set[str] = set()
    for server in servers:
        plain = re.sub(r"_{2,}", "_", _STRANGE.sub("_", server)).strip("_") or "server"
        is_free = len(plain) <= MAX_SERVER_CHARS and plain.lower() not in taken
        found[server] = plain if is_free else _marked(plain, server, MAX_SERVER_CHARS)
        taken.add(found[server].lower())
    return found


def tool_names(segment: str, tools: Iterable[str]) -> dict[str, str]:
    """For each tool of a server its name here, sorted by that; what a server names twice it names once.

    Rules do not look at case, so names that differ by case alone fall together as well. Of several that do, the one
    that has the name already keeps it, in small letters before others: a rule about it must not be dodged by another
    tool's name. The rest have a digest of their own name behind it, whatever else there is and in whatever order.
    """
    start, found = f"{PREFIX}{segment}__", dict[str, str]()
    limit = MAX_CHARS - len(start)
    plain = {tool: _STRANGE.sub("_", tool) for tool in tools}
    marked, taken = list[str](), set[str]()
    for tool in sorted(plain, key=lambda tool: (tool != plain[tool], tool != tool.lower(), tool)):
        name = plain[tool]
        if len(name) > limit or name.lower() in taken:
            marked.append(tool)
        else:
            found[tool] = start + name
            taken.add(name.lower())
    for tool in marked:
        name = _marked(plain[tool], tool, limit)
        while name.lower() in taken:  # somebody calls a tool of his like the name of another
            name = _marked(plain[tool], name + tool, limit)
        found[tool] = start + name
        taken.add(name.lower())
    return dict(sorted(found.items(), key=lambda pair: pair[1]))


def _marked(name: str, told_apart_by: str, limit: int) -> str:
    digest = hashlib.sha256(told_apart_by.encode(errors="surrogatepass")).hexdigest()[:_DIGEST_CHARS]
    return f"{name[: limit - _DIGEST_CHARS - 1]}_{digest}"
