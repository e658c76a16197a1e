"""The command `agentcore`: reads arguments and starts what they name.

Light until the arguments are read: everything else is imported where it is used, so `--help` and mistakes answer at
once. Nothing but results goes to stdout. Promise: what cannot be done is one sentence on stderr and exit code 2.
"""

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from server.output import written
from server.settings import STATE_VARIABLE, CannotStart

MODES = ("default", "accept-edits", "plan", "auto", "deny", "yolo")
RAN = (
    "Waits for what goes on in the background, and tells what comes of it; Ctrl-C ends it. Exit codes, by the last run:"
    " 0 answered, 1 error, 2 mistake here, 3 refusal, 4 max_tokens, 5 max_turns, 6 budget, 130 interrupted."
)
SOUND = "Changes nothing. Exit codes: 0 sound, 1 something was found, 2 mistake here."
TRIED = "Starts servers of its own, in folders of its own. Exit codes: 0 all held, 1 something did not."
EFFORTS = ("low", "medium", "high", "xhigh", "max")
_OR_VARIABLE = f"default: {STATE_VARIABLE}, or the platform's folders"
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    return written(partial(_answer, sys.argv[1:] if argv is None else argv))


def _answer(argv: Sequence[str]) -> int:
    try:
        given, line = _parted(argv)
        arguments, left = _parser().parse_known_args(given)
        if left:
            command = f"agentcore {arguments.command}" if arguments.command else "agentcore"
            raise CannotStart(f"unrecognized arguments: {' '.join(left)} ({command} --help says more).")
        if arguments.version:
            return _version()
        if arguments.command == "serve":
            from server.serve import serve

            return serve(arguments)
        if arguments.command == "run":
            return _run(arguments)
        if arguments.command == "models":
            from server.models import main as tell_models

            return tell_models(as_json=arguments.json)
        if arguments.command == "config":
            from server.config import main as tell_settings

            return tell_settings(arguments.cwd, as_json=arguments.json)
        if arguments.command == "hooks":
            from server.hooks import main as approve

            return approve(arguments.cwd, allow=arguments.approve, deny=arguments.deny)
        if arguments.command == "trace":
            from server.trace import main as tell_trace

            return tell_trace(arguments.session, page=arguments.html, state_dir=arguments.state_dir)
        if arguments.command == "mcp":
            from server.mcp import main as manage_servers

            return manage_servers(arguments, line)
        if arguments.command == "doctor":
            from server.doctor import main as examine

            return examine(arguments.session, as_json=arguments.json, state_dir=arguments.state_dir)
        if arguments.command == "selfcheck":
            from agentcore_selfcheck.main import main as check_all

            return check_all()
        raise CannotStart("Say what to do: agentcore serve, or agentcore run -p '…' (agentcore --help lists all).")
    except CannotStart as error:
        print(f"agentcore: {error}", file=sys.stderr)
        return EXIT_USAGE
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _parted(argv: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """What is for this command, and behind a `--` of `mcp add` the command line of somebody else."""
    if list(argv[:2]) != ["mcp", "add"] or "--" not in argv:
        return argv, ()
    at = list(argv).index("--")
    return argv[:at], argv[at + 1 :]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise CannotStart(f"{message} ({self.prog} --help says more).")


class _AnyOrder(_Parser):
    """Takes options between and behind its arguments as well, and says what is to be done with what is left."""

    about_left = ""
    _is_inside = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if self._is_inside:
            return super().parse_known_args(args, namespace)
        self._is_inside = True  # what follows calls this method
        try:
            namespace, left = self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_inside = False
        if left:
            what = f"{left[0]} is no option here" if left[0].startswith("-") else f"Too many arguments: {left[0]}"
            raise CannotStart(f"{what}. {self.about_left}".strip())
        return namespace, left


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="agentcore", description="A local server that runs coding agents.", allow_abbrev=False)
    parser.add_argument("--version", action="store_true", help="print the version and leave")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    _add_serve(commands.add_parser("serve", help="run the server", allow_abbrev=False))
    _add_run(commands.add_parser("run", help="run one prompt without a server", allow_abbrev=False, epilog=RAN))
    models = commands.add_parser("models", help="list providers and models, and what they lack", allow_abbrev=False)
    models.add_argument("--json", action="store_true", help="for programs")
    _add_config(commands.add_parser("config", help="show the settings and where each comes from", allow_abbrev=False))
    _add_hooks(commands.add_parser("hooks", help="list and approve what a repository wants to run", allow_abbrev=False))
    _add_mcp(commands.add_parser("mcp", help="list, add, approve MCP servers, and log in", allow_abbrev=False))
    _add_doctor(commands.add_parser("doctor", help="look at a session on disk", allow_abbrev=False, epilog=SOUND))
    _add_trace(commands.add_parser("trace", help="show what happened in a session", allow_abbrev=False))
    commands.add_parser("selfcheck", help="try the promises on this machine", allow_abbrev=False, epilog=TRIED)
    return parser


def _add_serve(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--host", default="127.0.0.1", metavar="HOST", help="address to listen on (default: %(default)s)")
    add("--port", type=int, metavar="N", help="port; 0 takes a free one (default: 4765, or a free one near it)")
    add("--uds", type=Path, metavar="PATH", help="listen on a Unix socket instead, open to this user alone")
    add("--root", action="append", type=Path, default=[], metavar="DIR", help="a further folder for sessions")
    add("--model", metavar="P/M", help="provider and model of new sessions, or a short name; see agentcore models")
    add("--effort", choices=EFFORTS, help="reasoning effort of new sessions")
    add("--mode", choices=MODES, help="permission mode of new sessions (default: that of your settings, or default)")
    choices = ("wait", "deny", "defer")
    add("--unattended", choices=choices, help="when nobody answers (default: that of your settings, or wait)")
    token = parser.add_mutually_exclusive_group()
    token.add_argument("--token-file", type=Path, metavar="F", help="read the token from a file (chmod 600)")
    token.add_argument("--token", metavar="T", help="the token; other users can see it in the process list")
    add("--allow-remote", action="store_true", help="let --host be reachable from other machines")
    add("--allowed-host", action="append", default=[], metavar="H", help="a name that requests may use for us")
    add("--allow-origin", action="append", default=[], metavar="O", help="a web origin that may use the server")
    add("--allow-yolo", action="store_true", help="let sessions run without asking for permissions")
    add("--state-dir", type=Path, metavar="DIR", help=f"discovery files in DIR, sessions in DIR/data ({_OR_VARIABLE})")
    add("--debug", action="store_true", help="say more on stderr, and keep what is sent to models for traces")


def _add_run(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("-p", "--prompt", metavar="TEXT", help="what to do; - or a pipe reads it from stdin")
    add("--output", choices=("text", "json"), default="text", help="the answer, or one event per line")
    add("--model", metavar="P/M", help="provider and model, or a short name; see agentcore models")
    add("--mode", choices=MODES, help="permission mode")
    add("--allow-yolo", action="store_true", help="permit --mode yolo, which asks for no permissions")
    add("--cwd", type=Path, default=Path(), metavar="DIR", help="folder to work in (default: the current one)")
    add("--max-turns", type=int, metavar="N", help="model calls at most")
    add("--state-dir", type=Path, metavar="DIR", help=f"sessions in DIR/data ({_OR_VARIABLE})")


def _add_config(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--cwd", type=Path, default=Path(), metavar="DIR", help="folder of the session (default: the current one)")
    add("--json", action="store_true", help="for programs")


def _add_hooks(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cwd", type=Path, default=Path(), metavar="DIR", help="folder (default: the current one)")
    decision = parser.add_mutually_exclusive_group()
    decision.add_argument("--approve", metavar="ID", help="let it run, until its content changes")
    decision.add_argument("--deny", metavar="ID", help="never let it run")


def _add_mcp(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=_AnyOrder)

    def action(name: str, help: str, *, for_project: bool = False) -> _AnyOrder:
        made: _AnyOrder = actions.add_parser(name, help=help, allow_abbrev=False)
        made.add_argument("--cwd", type=Path, default=Path(), metavar="DIR", help="folder (default: the current one)")
        if for_project:
            made.add_argument("--project", action="store_true", help="in your settings for this project alone")
        return made

    listing = action("list", "the servers that sessions in a folder use")
    listing.add_argument(
        "--check", action="store_true", help="connect to each, and say what came of it; exit code 1 when one failed"
    )
    adding = action("add", "write a server into your settings", for_project=True)
    adding.about_left = "A command and what belongs to it stand behind --: agentcore mcp add NAME -- COMMAND [ARG…]."
    add = adding.add_argument
    add("--type", choices=("stdio", "http", "sse"), help="how it is spoken to (default: stdio, or http for a URL)")
    add(
        "--env",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a variable for the command; ${VAR} is filled in",
    )
    add("--header", action="append", default=[], metavar="'NAME: VALUE'", help="a header for the URL; likewise")
    add("--timeout", type=float, metavar="S", help="seconds that a call may be silent (default: 120)")
    add("name", metavar="NAME")
    add("url", nargs="?", metavar="URL | -- COMMAND [ARG…]")
    removing = action("remove", "take a server out of your settings", for_project=True)
    removing.add_argument("name", metavar="NAME")
    approving = action("approve", "let a server of a repository run, until it changes")
    approving.add_argument("--deny", action="store_true", help="never let it run")
    approving.add_argument("name", metavar="NAME")
    login = action("login", "log in at a server over HTTP, in the browser")
    login.add_argument("--no-browser", action="store_true", help="only print the address")
    login.add_argument("name", metavar="NAME")
    action("logout", "forget a login").add_argument("name", metavar="NAME")


def _add_doctor(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("session", metavar="SESSION", help="its id, a unique prefix of it, or latest")
    add("--json", action="store_true", help="for programs")
    add("--state-dir", type=Path, metavar="DIR", help=f"sessions in DIR/data ({_OR_VARIABLE})")


def _add_trace(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("session", metavar="SESSION", help="its id, a unique prefix of it, or latest")
    add("--html", type=Path, metavar="FILE", help="write a page instead, with all that was said")
    add("--state-dir", type=Path, metavar="DIR", help=f"sessions in DIR/data ({_OR_VARIABLE})")


def _version() -> int:
    from importlib.metadata import version

    print(f"agentcore {version('agentcore-server')}")
    return 0


def _run(arguments: argparse.Namespace) -> int:
    from server.settings import RunSettings, existing_folder, folders, refuse_yolo

    refuse_yolo(arguments.mode, is_allowed=arguments.allow_yolo)
    settings = RunSettings(
        prompt=_prompt(arguments.prompt),
        cwd=existing_folder(arguments.cwd),
        folders=folders(arguments.state_dir),
        output=arguments.output,
        model=arguments.model,
        mode=arguments.mode,
        allow_yolo=arguments.allow_yolo,
        max_turns=_positive(arguments.max_turns, "--max-turns"),
    )
    from server.headless import main as run_headless

    return run_headless(settings)


def _prompt(given: str | None) -> str:
    if given is None and sys.stdin.isatty():
        raise CannotStart("There is nothing to do; give a prompt with -p, or pipe it in.")
    text = sys.stdin.buffer.read().decode("utf-8", "replace") if given in (None, "-") else given
    if text is None or not text.strip():
        raise CannotStart("The prompt is empty; say what to do with -p, or pipe it in.")
    return text


def _positive(number: int | None, option: str) -> int | None:
    if number is not None and number < 1:
        raise CannotStart(f"{option} must be at least 1.")
    return number


if __name__ == "__main__":
    sys.exit(main())
