"""What a hook reads: the documented fields of its event, with tools and paths as other agents spell them. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import JsonValue
from pydantic_core import to_json

from agentcore.events import Mode
from agentcore.messages import ToolCall, ToolResult
from agentcore.permissions.names import is_known, spelled
from agentcore.ports.hooks import EndedRun
from agentcore.ports.permission import Ask
from agentcore.ports.tools import Outcome
from agentcore.session import BackgroundTask

Fields = Mapping[str, Any]

_MODES: Mapping[str, str] = {"accept-edits": "acceptEdits", "deny": "dontAsk", "yolo": "bypassPermissions"}
_PATHS = ("file_path", "path")
"""Fields of built-in tools that hold one."""
_EDITING = frozenset({"write", "edit", "multi_edit"})
_ENDING = re.compile(
    r"(?:^|\n)\[(?:exit code -?\d+|ended by \w+(?: -?\d+)?|timed out after \d+ ms and was ended)\]"
    r"(?:\n\[(?!exit code |ended by |timed out after )[^\n]*\])*(?:\n\n<hook-.*)?\Z",
    re.DOTALL,
)
"""The line in which `bash` tells how a command ended, and what it and hooks say behind it."""
_NO_OUTPUT = "(no output)"


@dataclass(frozen=True, slots=True)
class Now:
    """What is the same for every hook of a moment."""

    session: str
    transcript_path: str
    cwd: Path
    mode: Mode
    prompt_id: str | None = None
    effort: str | None = None
    agent_id: str | None = None
    """Label of the subagent in which it is; None in the main agent."""
    agent_type: str | None = None
    model: str | None = None
    """`provider/model` of the next run."""
    tasks: tuple[BackgroundTask, ...] = ()
    """Those of the session that are alive."""


def common(now: Now, event: str) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "session_id": now.session,
        "transcript_path": now.transcript_path,
        "cwd": str(now.cwd),
        "hook_event_name": event,
        "permission_mode": _MODES.get(now.mode, now.mode),
    }
    if now.prompt_id is not None:
        fields["prompt_id"] = now.prompt_id
    if now.effort is not None:
        fields["effort"] = {"level": now.effort}
    if now.agent_id is not None:
        fields |= {"agent_id": now.agent_id, "agent_type": now.agent_type}
    return fields


def of_start(now: Now, source: str) -> Fields:
    return {"source": source} if now.model is None else {"source": source, "model": now.model}


# --- tools ---


def of_call(call: ToolCall, cwd: Path) -> dict[str, Any]:
    return {
        "tool_name": spelled(call.name),
        "native_tool_name": call.name,
        "tool_input": _with_absolute_paths(call, cwd),
        "tool_use_id": call.id,
    }


def _with_absolute_paths(call: ToolCall, cwd: Path) -> dict[str, JsonValue]:
    given = dict(call.input or {})
    if is_known(call.name):
        for name in _PATHS:
            value = given.get(name)
            if isinstance(value, str) and value:
                given[name] = str(cwd / value)  # `..` stays: behind a link it does not mean the folder above
    return given


def of_success(call: ToolCall, outcome: Outcome, duration_ms: int, cwd: Path) -> Fields:
    return {
        **of_call(call, cwd),
        "tool_response": response(call, outcome.output, is_error=outcome.is_error, cwd=cwd),
        "duration_ms": duration_ms,
    }


def of_failure(call: ToolCall, outcome: Outcome, duration_ms: int, cwd: Path) -> Fields:
    return {**of_call(call, cwd), "error": outcome.output, "is_interrupt": False, "duration_ms": duration_ms}


def response(call: ToolCall, output: str, *, is_error: bool, cwd: Path) -> dict[str, Any]:
    """What the tool said, and besides the fields that scripts look for in what that tool says elsewhere."""
    fields: dict[str, Any] = {"output": output, "is_error": is_error, "success": not is_error}
    if call.name == "bash":
        fields |= {"stdout": printed(output), "stderr": "", "interrupted": False}
    path = _with_absolute_paths(call, cwd).get("file_path")
    if call.name in _EDITING and isinstance(path, str):
        fields["filePath"] = path
    return fields


def printed(output: str) -> str:
    """What a command itself printed, of what `bash` tells about it."""
    text = _ENDING.sub("", output, count=1)
    return "" if text == _NO_OUTPUT else text


def text_of_response(value: JsonValue) -> str | None:
    """The text in the place of a tool's own (`updatedToolOutput`), of whatever form; None when it says nothing.

    A text is itself; of an object in the form of a `tool_response` it is what stands for the text there.
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, dict):
        if isinstance(output := value.get("output"), str):
            return output
        if isinstance(out := value.get("stdout"), str):
            errors = value.get("stderr")
            return "\n".join(part for part in (out, errors) if isinstance(part, str) and part)
    return to_json(value).decode()


def of_batch(results: Sequence[tuple[ToolCall, ToolResult]], cwd: Path) -> Fields:
    return {
        "tool_calls": [
            {**of_call(call, cwd), "tool_response": response(call, result.content, is_error=result.is_error, cwd=cwd)}
            for call, result in results
        ]
    }


def of_question(question: Ask, cwd: Path) -> Fields:
    return {**of_call(question.call, cwd), "permission_suggestions": [*map(_suggestion, question.suggested_rules)]}


def _suggestion(rule: str) -> Fields:
    tool, _, rest = rule.partition("(")
    told = {"toolName": tool, "ruleContent": rest.removesuffix(")")} if rest else {"toolName": tool}
    return {"type": "addRules", "rules": [told], "behavior": "allow", "destination": "localSettings"}


# --- runs ---


def of_stop(text: str, now: Now, *, is_continued: bool) -> Fields:
    return {
        "stop_hook_active": is_continued,
        "last_assistant_message": text,
        "background_tasks": [*map(_task, now.tasks)],
        "session_crons": [],
    }


def _task(task: BackgroundTask) -> Fields:
    told = {"id": task.task_id, "status": "running", "description": task.label}
    if task.kind == "bash":
        return {**told, "type": "shell"}
    kind, _, description = task.label.partition(": ")  # as the tool `task` labels them
    return {**told, "type": "subagent", "agent_type": kind, "description": description}


def of_run(run: EndedRun) -> Fields:
    return {
        "run_id": run.run_id,
        "prompt_id": run.prompt_id,
        "stop_reason": run.stop_reason,
        "last_assistant_message": run.text,
        "turns": run.turns,
    }
