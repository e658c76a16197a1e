"""What `agentcore serve` does: settings, listener, application, start line, and the way back down.

Assembles; each step is another file's matter. The socket is opened before the heavy imports, so that mistakes are
told at once. Promise: stdout gets the one JSON line when the server answers, and nothing else.
"""

import argparse
import os
import re
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from server import discovery, logs
from server.discovery import Running
from server.listener import DEFAULT_PORT, Address, Listener, listen
from server.origins import is_loopback_name, parse_host
from server.settings import CannotStart, ServerSettings, Token, existing_folder, find_token, folders, refuse_yolo

SHORT_TOKEN = 16  # characters; random ones of that length hold about 95 bits
_ORIGIN = re.compile(r"https?://[a-z0-9_.:\[\]-]+")


def serve(arguments: argparse.Namespace) -> int:
    """Run the server until it is told to stop; return the exit code. Raises: CannotStart."""
    token = find_token(arguments.token_file, arguments.token)
    settings = _settings(arguments, token)
    address = _address(arguments, token)
    style = logs.log_style(os.environ)
    logs.write_log(style, debug=settings.debug)
    logs.tell_people(style)
    listener = listen(address)
    try:
        return _run(settings, listener, list(_warnings(arguments, token, listener)))
    finally:
        listener.close()


def _run(settings: ServerSettings, listener: Listener, warnings: list[str]) -> int:
    from server.collector import loading

    with loading():  # the collector would look through all of it again and again while it grows
        from agentcore.errors import AgentError
        from server import daemon
        from server.asgi import build

    identity = _identity(settings, listener)
    published: list[Path] = []

    def announce() -> None:
        published.append(discovery.publish(settings.state_dir, identity))
        sys.stdout.write(identity.start_line() + "\n")
        sys.stdout.flush()
        for line in _for_people(application.model, identity, published[0]):
            logs.people.info("%s", line)
        for notice in (*warnings, *application.notices):
            logs.people.warning("  note      %s", notice)

    async def main() -> int:
        await application.start()
        return await daemon.serve(application.app, listener, on_started=announce, on_stop=application.stop)

    try:
        application = build(settings)
        code = daemon.run(main())
        logs.people.info("%s", _farewell(application.left_open))
        return code
    except AgentError as error:
        raise CannotStart(str(error)) from error
    finally:
        for path in published:
            discovery.withdraw(path, identity)


def _identity(settings: ServerSettings, listener: Listener) -> Running:
    return Running(
        url=listener.url,
        token=settings.token,
        pid=os.getpid(),
        version=version("agentcore-server"),
        cwd=str(settings.cwd),
        roots=tuple(str(root) for root in settings.roots),
        started=discovery.process_start(os.getpid()),
    )


def _settings(arguments: argparse.Namespace, token: Token) -> ServerSettings:
    refuse_yolo(arguments.mode, is_allowed=arguments.allow_yolo)
    cwd = existing_folder(Path())
    return ServerSettings(
        cwd=cwd,
        roots=tuple(dict.fromkeys([cwd, *map(existing_folder, arguments.root)])),
        folders=folders(arguments.state_dir),
        token=token.value,
        token_file=arguments.token_file and arguments.token_file.resolve(),
        model=arguments.model,
        mode=arguments.mode,
        effort=arguments.effort,
        unattended=arguments.unattended,
        allow_yolo=arguments.allow_yolo,
        allow_remote=arguments.allow_remote,
        allowed_hosts=tuple(map(_host, arguments.allowed_host)),
        allow_origins=tuple(map(_origin, arguments.allow_origin)),
        debug=arguments.debug,
    )


def _address(arguments: argparse.Namespace, token: Token) -> Address:
    if arguments.allow_remote and not token.is_chosen:
        raise CannotStart("--allow-remote needs a token of your own; set one with --token-file or AGENTCORE_TOKEN.")
    if arguments.uds is not None and arguments.port is not None:
        raise CannotStart("--uds listens on a Unix socket instead of a port; give one of --uds and --port.")
    return Address(arguments.host, arguments.port, arguments.uds, arguments.allow_remote)


def _host(text: str) -> str:
    host = parse_host(text)
    if host is None:
        raise CannotStart(f"'{text}' is not a host name; give --allowed-host as name or name:port.")
    return str(host)


def _origin(text: str) -> str:
    origin = text.lower().removesuffix("/")
    if _ORIGIN.fullmatch(origin) is None:
        raise CannotStart(f"'{text}' is not a web origin; give --allow-origin as https://name or https://name:port.")
    return origin


def _warnings(arguments: argparse.Namespace, token: Token, listener: Listener) -> Iterator[str]:
    if arguments.token is not None:
        yield "other users can see the token in the process list; --token-file or AGENTCORE_TOKEN hides it"
    if len(token.value) < SHORT_TOKEN:
        yield "the token is short; anyone can guess it"
    if arguments.uds is None and arguments.port is None and not listener.url.endswith(f":{DEFAULT_PORT}"):
        yield f"port {DEFAULT_PORT} is taken; this is the next free one"
    if not is_loopback_name(arguments.host) and not arguments.allowed_host:
        yield "requests from other machines are refused until --allowed-host names what they call this one"
    if arguments.allow_yolo:
        yield "sessions may switch to the mode yolo, which runs everything without asking"


def _for_people(model: str, server: Running, file: Path) -> Iterator[str]:
    yield f"agentcore {server.version} is running at {server.url} (process {server.pid})"
    yield f"  folders   {', '.join(server.roots)}"
    yield f"  model     {model}"
    yield f"  connect   with the token in the line on stdout, which is also in {file}"


def _farewell(left_open: int) -> str:
    if not left_open:
        return "agentcore has stopped"
    return f"agentcore has stopped; unfinished runs: {left_open}, each goes on when its session is loaded again"
