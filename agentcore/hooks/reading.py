"""Hooks as settings files have them, TOML or JSON alike: read into handlers, and a sentence for each that is broken.

`{Event: [{matcher?, hooks: [handler]}]}`. A broken handler is left out and the rest works - unless it says
`fail_closed`: what was to keep something out still does.
"""

import difflib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from agentcore.hooks.handlers import (
    Action,
    BrokenAction,
    CommandAction,
    Handler,
    HttpAction,
    McpAction,
    PromptAction,
)
from agentcore.hooks.matching import EVERYTHING, Matcher, parse_matcher
from agentcore.hooks.moments import MOMENTS, Moment
from agentcore.origin import Origin

OFF = "disableAllHooks"
LONGEST_S = 24 * 60 * 60.0

_OF_ALL = frozenset({"type", "if", "timeout", "statusMessage", "once", "fail_closed"})
_OF_COMMANDS = _OF_ALL | {"command", "args", "async", "asyncRewake", "shell"}
_OF_HTTP = _OF_ALL | {"url", "headers", "allowedEnvVars"}
_OF_PROMPTS = _OF_ALL | {"prompt", "model", "continueOnBlock"}
_OF_MCP = _OF_ALL | {"server", "tool", "input"}
_LATER = frozenset({"agent"})
_GOES_ON = frozenset({"PostToolUse", "PostToolUseFailure"})
"""Where a model's no ends the run, unless it says otherwise."""


@dataclass(frozen=True, slots=True)
class HookProblem:
    """Something in a file that has no effect, or not the effect that was meant."""

    origin: Origin
    keys: tuple[str, ...]
    """Of the table that it is about, from the top of the file: where its line can be looked for."""
    place: str
    """`PreToolUse[0].hooks[1]`; empty for all of it."""
    text: str

    def __str__(self) -> str:
        return f"{self.origin.name}: hooks{f'.{self.place}' if self.place else ''}: {self.text}"


@dataclass(frozen=True, slots=True)
class HookFile:
    """What one file says about hooks."""

    origin: Origin
    handlers: tuple[Handler, ...] = ()
    problems: tuple[HookProblem, ...] = ()
    is_off: bool = False
    """It turns all hooks off (`disableAllHooks`)."""


def handlers_of(files: Iterable[HookFile]) -> tuple[Handler, ...]:
    """The handlers of all files, in their order. A file of the user's can turn off all, a shared one only its own."""
    files = list(files)
    if any(file.is_off and not file.origin.is_shared for file in files):
        return ()
    return tuple(handler for file in files if not file.is_off for handler in file.handlers)


def read_hooks(settings: Mapping[str, Any], origin: Origin, *, of_skill: bool = False) -> HookFile:
    """Read the `hooks` of a parsed settings file, or of a skill's head: there `once` counts. Never raises."""
    reader = _Reader(origin, of_skill)
    reader.read(settings.get("hooks"))
    off = settings.get(OFF, False)
    if not isinstance(off, bool):
        reader.problems.append(HookProblem(origin, (OFF,), "", f"`{OFF}` must be true or false."))
    return HookFile(origin, tuple(reader.handlers), tuple(reader.problems), is_off=off is True)


class _Broken(Exception):
    """A sentence about what cannot be used."""


@dataclass(slots=True)
class _Reader:
    origin: Origin
    of_skill: bool = False
    handlers: list[Handler] = field(default_factory=list)
    problems: list[HookProblem] = field(default_factory=list)

    def read(self, tables: object) -> None:
        if tables is None:
            return
        if not isinstance(tables, Mapping):
            self._complain((), "", "must be a table of events. They are left out.")
            return
        for event, groups in tables.items():
            if (moment := MOMENTS.get(str(event))) is None:
                self._complain((str(event),), str(event)[:60], _unknown_event(str(event)))
            elif not isinstance(groups, Sequence) or isinstance(groups, str):
                self._complain((moment.event,), moment.event, "must be a list of groups. It is left out.")
            else:
                for place, group in enumerate(groups):
                    self._read_group(moment, f"{moment.event}[{place}]", group)

    def _read_group(self, moment: Moment, place: str, group: object) -> None:
        handlers = group.get("hooks") if isinstance(group, Mapping) else None
        if not isinstance(group, Mapping) or not isinstance(handlers, Sequence) or isinstance(handlers, str):
            self._complain((moment.event,), place, "must be a table with a list `hooks`. It is left out.")
            return
        matcher, why = _matcher(moment, group.get("matcher"))
        for number, written in enumerate(handlers):
            where = f"{place}.hooks[{number}]"
            if not isinstance(written, Mapping):
                self._complain((moment.event,), where, "must be a table with a `type`. It is left out.")
                continue
            self._read_handler(moment, where, written, str(group.get("matcher") or ""), matcher, why)

    def _read_handler(
        self, moment: Moment, place: str, written: Mapping[str, Any], text: str, matcher: Matcher, why: str
    ) -> None:
        is_closed = written.get("fail_closed") is not None and written["fail_closed"] is not False
        try:
            if why:
                raise _Broken(why)
            handler = Handler(
                origin=self.origin,
                event=moment.event,
                place=place,
                written=written,
                action=_action(moment, written),
                matcher_text=text,
                matcher=matcher,
                condition=_condition(moment, written),
                timeout_s=_timeout(written),
                is_async=written.get("type") == "command"
                and (_flag(written, "async") or _flag(written, "asyncRewake")),
                is_waking=written.get("type") == "command" and _flag(written, "asyncRewake"),
                is_once=_flag(written, "once") and self.of_skill,
                is_fail_closed=_flag(written, "fail_closed") and moment.is_gate,
            )
        except _Broken as broken:
            kept = is_closed and moment.is_gate
            left = "It is kept as one that says no, because of `fail_closed`." if kept else "It is left out."
            self._complain((moment.event,), place, f"{broken}. {left}")
            if kept:
                action = BrokenAction(str(broken))
                self.handlers.append(
                    Handler(self.origin, moment.event, place, written, action, text, matcher, is_fail_closed=True)
                )
            return
        self.handlers.append(handler)
        for remark in _remarks(moment, written, handler):
            self._complain((moment.event,), place, remark)
        if written.get("once") and not self.of_skill:
            self._complain((moment.event,), place, "`once` has no effect here: it counts in the head of a skill.")

    def _complain(self, keys: tuple[str, ...], place: str, text: str) -> None:
        self.problems.append(HookProblem(self.origin, ("hooks", *keys), place, text))


def _unknown_event(event: str) -> str:
    near = difflib.get_close_matches(event, MOMENTS, n=1)
    return f"is no event{f'; did you mean {near[0]}?' if near else '.'} It is left out."


def _matcher(moment: Moment, text: object) -> tuple[Matcher, str]:
    """The matcher of a group, and what is wrong with it; a broken one matches everything."""
    if text is None or moment.matched_on == "nothing":
        return EVERYTHING, ""
    if not isinstance(text, str):
        return EVERYTHING, "the matcher must be a text"
    try:
        return parse_matcher(text), ""
    except ValueError as error:
        return EVERYTHING, str(error)


# --- the parts of a handler ---


def _action(moment: Moment, written: Mapping[str, Any]) -> Action:
    match written.get("type"):
        case "command":
            return _command(written)
        case "http":
            return _http(written)
        case "prompt":
            return _prompt(moment, written)
        case "mcp_tool":
            return _mcp_tool(written)
        case kind if kind in _LATER:
            raise _Broken(f"handlers of type `{kind}` are not supported yet")
        case _:
            raise _Broken("`type` must be `command`, `http`, `prompt` or `mcp_tool`")


def _command(written: Mapping[str, Any]) -> CommandAction:
    command = _text(written, "command")
    if not command.strip():
        raise _Broken("`command` is missing")
    if "\0" in command:
        raise _Broken("`command` holds a NUL")
    if written.get("shell", "bash") != "bash":
        raise _Broken("`shell` can only be `bash` here")
    args = written.get("args")
    return CommandAction(command, None if args is None else _texts(args, "args"))


def _http(written: Mapping[str, Any]) -> HttpAction:
    url = _text(written, "url")
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable:
        raise _Broken("`url` must be an http or https address")
    headers = written.get("headers", {})
    if not isinstance(headers, Mapping) or not all(isinstance(value, str) for value in headers.values()):
        raise _Broken("`headers` must be a table of texts")
    variables = _texts(written.get("allowedEnvVars", ()), "allowedEnvVars")
    return HttpAction(url, tuple((str(name), value) for name, value in headers.items()), frozenset(variables))


def _prompt(moment: Moment, written: Mapping[str, Any]) -> PromptAction:
    prompt = _text(written, "prompt")
    if not prompt.strip():
        raise _Broken("`prompt` is missing")
    if not moment.is_judged:
        raise _Broken("handlers of type `prompt` work where a no means something")
    model = None if written.get("model") is None else _text(written, "model")
    return PromptAction(prompt, model, goes_on=_flag(written, "continueOnBlock"))


def _mcp_tool(written: Mapping[str, Any]) -> McpAction:
    server, tool, given = _text(written, "server"), _text(written, "tool"), written.get("input", {})
    if not server.strip() or not tool.strip():
        raise _Broken("`server` and `tool` must be names")
    if not isinstance(given, Mapping):
        raise _Broken("`input` must be a table")
    return McpAction(server, tool, given)


def _condition(moment: Moment, written: Mapping[str, Any]) -> str | None:
    if written.get("if") is None:
        return None
    if moment.matched_on != "tool":
        raise _Broken("`if` works at the events of tools only")
    return _text(written, "if")


def _timeout(written: Mapping[str, Any]) -> float | None:
    seconds = written.get("timeout")
    if seconds is None:
        return None
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not math.isfinite(seconds) or not 0 < seconds <= LONGEST_S:
        raise _Broken("`timeout` must be a number of seconds above 0, at most a day")
    return float(seconds)


def _flag(written: Mapping[str, Any], name: str) -> bool:
    value = written.get(name, False)
    if not isinstance(value, bool):
        raise _Broken(f"`{name}` must be true or false")
    return value


def _text(written: Mapping[str, Any], name: str) -> str:
    value = written.get(name)
    if not isinstance(value, str):
        raise _Broken(f"`{name}` is missing" if value is None else f"`{name}` must be a text")
    return value


def _texts(value: object, name: str) -> tuple[str, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str) or not all(isinstance(one, str) for one in value):
        raise _Broken(f"`{name}` must be a list of texts")
    if any("\0" in one for one in value):
        raise _Broken(f"`{name}` holds a NUL")
    return tuple(value)


# --- what works otherwise than it may be meant ---

_KNOWN: Mapping[type, frozenset[str]] = {
    CommandAction: _OF_COMMANDS,
    HttpAction: _OF_HTTP,
    PromptAction: _OF_PROMPTS,
    McpAction: _OF_MCP,
}


def _remarks(moment: Moment, written: Mapping[str, Any], handler: Handler) -> Iterator[str]:
    known = _KNOWN[type(handler.action)]
    for key in written:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1)
            yield f"`{str(key)[:40]}` is not known{f'; did you mean `{near[0]}`?' if near else '.'} It has no effect."
    if written.get("asyncRewake") is True:
        yield "`asyncRewake` wakes nobody here: what it says with exit code 2 is told with the next prompt."
    if written.get("continueOnBlock") is not None and moment.event not in _GOES_ON:
        yield "`continueOnBlock` has no effect here."
    if written.get("fail_closed") is True and not moment.is_gate:
        yield "`fail_closed` has no effect here: nothing is let through at this event."
    if handler.is_async and handler.is_fail_closed:
        yield "`fail_closed` has no effect with `async`: nobody waits for it."
