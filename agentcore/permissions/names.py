"""The names of tools: native ones, and the spelling that settings files and hook scripts of other agents know."""

from collections.abc import Mapping

SPELLING = {
    "ask_user": "AskUserQuestion",
    "bash": "Bash",
    "edit": "Edit",
    "exit_plan_mode": "ExitPlanMode",
    "glob": "Glob",
    "grep": "Grep",
    "ls": "LS",
    "lsp": "LSP",
    "memory": "Memory",
    "multi_edit": "MultiEdit",
    "read": "Read",
    "skill": "Skill",
    "task": "Agent",
    "task_output": "TaskOutput",
    "task_stop": "TaskStop",
    "todo_write": "TodoWrite",
    "web_fetch": "WebFetch",
    "web_search": "WebSearch",
    "write": "Write",
}
"""Native name to the spelling of others."""

_NATIVE = {
    **{name: name for name in SPELLING},
    **{spelling.lower(): name for name, spelling in SPELLING.items()},
    "bashoutput": "task_output",
    "killshell": "task_stop",
    "notebookedit": "edit",
    "task": "task",
}

WEB = frozenset({"web_fetch", "web_search"})
NAMED_BY: Mapping[str, str] = {"skill": "name", "task": "subagent_type"}
"""Tools whose rules name what they load or start, and the field that says it."""


def native_name(text: str) -> str:
    """The name a tool goes by here, whatever its spelling and case; an unknown one in lower case."""
    return _NATIVE.get(text.lower(), text.lower())


def spelled(name: str) -> str:
    """A native name as other agents' files spell it; one that they do not know stays as it is."""
    return SPELLING.get(name, name)


def named_word(text: str) -> str:
    """The name of a skill or an agent, however it was called: a slash in front of it is how people type one."""
    return text.strip().removeprefix("/")


def is_known(name: str) -> bool:
    """Whether it is the native name of a built-in tool."""
    return name in SPELLING
