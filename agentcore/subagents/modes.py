"""In which mode a subagent works: its session's, or a tighter one that its file asks for. Pure.

A looser one counts only where the user's own file says so, and never in plan mode, in mode deny, or for yolo.
"""

from collections.abc import Mapping

from agentcore.events import Mode

_STRICTNESS: Mapping[Mode, int] = {"yolo": 0, "auto": 1, "accept-edits": 1, "default": 2, "deny": 3, "plan": 4}
OF_FILES: Mapping[str, Mode] = {
    "acceptedits": "accept-edits",
    "accept-edits": "accept-edits",
    "auto": "auto",
    "bypasspermissions": "yolo",
    "default": "default",
    "deny": "deny",
    "dontask": "deny",
    "manual": "default",
    "plan": "plan",
    "yolo": "yolo",
}
"""What files call a mode, in lower case."""


def mode_of(session: Mode, own: Mode | None, *, is_shared: bool) -> Mode:
    """The mode of a subagent whose session is in mode `session` and whose file asks for `own`."""
    if own is None:
        return session
    if _STRICTNESS[own] > _STRICTNESS[session]:
        return own
    if is_shared or own == "yolo" or session in ("plan", "deny"):
        return session
    return own
