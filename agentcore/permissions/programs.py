"""Which programs run others, and by which arguments: tables, and the question whether a pattern may approve a command.

A pattern such as `git *` means what the program does by itself. What makes it run another program is approved only
by a rule that is that very command.
"""

import re
from collections.abc import Callable, Mapping, Sequence

from agentcore.permissions.shell import Segment
from agentcore.permissions.words import HOLE, Word, names

SHELLS = names("sh bash dash zsh ksh ash mksh fish csh tcsh rbash busybox toybox")

INTERPRETERS = SHELLS | names(
    """python pypy ipython node nodejs deno bun ruby perl php lua luajit tclsh expect Rscript julia osascript pwsh
    powershell groovy scala guile racket awk gawk mawk nawk"""
)
"""Run what their first argument says; with a version behind the name too."""

RUN_OTHERS = names(
    """env sudo doas su runuser pkexec watch setsid ionice chrt taskset flock strace ltrace gdb valgrind unshare nsenter
    chroot systemd-run at batch crontab script parallel xargs entr eval source . exec trap alias enable hash complete
    compgen bind mapfile readarray let declare typeset local readonly export unset read printf test getopts coproc
    fc history command builtin time nice nohup timeout stdbuf noglob ed ex vi vim nvim emacs nano less more man
    socat nc ncat telnet ssh-keygen dd"""
)
"""No pattern approves them: they run other programs, or change what the shell's names mean."""

CARRIERS = names(
    """env sudo doas su runuser pkexec watch setsid ionice chrt taskset flock strace ltrace gdb valgrind unshare nsenter
    chroot systemd-run at batch script parallel xargs entr exec command builtin time nice nohup timeout stdbuf noglob
    busybox toybox npx bunx uvx pnpx eval trap coproc ssh"""
)
"""Their arguments may hold a command; deny and ask look at each."""

_EXEC = names("-exec -execdir -ok -okdir")
CARRY_AFTER: Mapping[str, frozenset[str]] = {
    "find": _EXEC,
    "fd": names("-x -X --exec --exec-batch"),
    "git": names("run foreach -x --exec"),
    **{name: names("run exec --") for name in ("docker", "podman", "kubectl", "npm", "pnpm", "yarn", "uv", "poetry")},
}
"""As `CARRIERS`, but only behind one of these words: `git rm` is no `rm`."""

SCRIPT_RUNNERS = SHELLS | names("eval trap ssh su watch script flock parallel env xargs sudo doas runuser at exec")
"""Their arguments may hold a shell line; deny and ask take it apart."""

_SAFE_VARIABLES = re.compile(
    r"LANG|LANGUAGE|LC_[A-Z]+|TZ|TERM|COLUMNS|LINES|NO_COLOR|FORCE_COLOR|CLICOLOR|CLICOLOR_FORCE|COLORTERM|CI|NODE_ENV"
    r"|RUST_BACKTRACE|RUST_LOG|PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE|GOOS|GOARCH|CGO_ENABLED|DEBIAN_FRONTEND"
)
"""Change how a program talks or what it builds for, never what it runs."""


def is_safe_variable(name: str) -> bool:
    return _SAFE_VARIABLES.fullmatch(name) is not None


def base_name(word: Word) -> str | None:
    """The program without its folder, where it is known."""
    return None if word.value is None else word.value.rpartition("/")[2]


def is_interpreter(segment: Segment) -> bool:
    """Whether its first argument is a program to it."""
    name = base_name(segment.words[0]) or ""
    return name in INTERPRETERS or re.sub(r"[\d.]+$", "", name) in INTERPRETERS


def why_no_pattern(segment: Segment) -> str | None:
    """Why only a rule that is this very command approves it; None where a pattern may."""
    name = base_name(segment.words[0]) or ""
    if name in RUN_OTHERS:
        return f"{name} can run other programs"
    texts = _texts(name, segment.words)
    arguments = [word for at, word in enumerate(segment.words) if at > 0 and at not in texts]
    if name in _ARGUMENTS or name in _CHECKS:
        if any(word.starts_unknown for word in arguments):
            return f"an argument of {name} is not known before it runs"
        values = [word.loose for word in arguments]
        if name in _ARGUMENTS and any(_ARGUMENTS[name].fullmatch(value) for value in values):
            return f"an argument makes {name} run other programs or write files"
        if name in _CHECKS and not _CHECKS[name](values):
            return f"an argument may make {name} run other programs"
    return None


def _texts(name: str, words: Sequence[Word]) -> frozenset[int]:
    """Places of the arguments that are text, such as the message of a commit."""
    if (name, words[1].value if len(words) > 1 else None) not in _TAKE_TEXTS:
        return frozenset()
    return frozenset(at for at in range(2, len(words)) if words[at - 1].value in _TEXT_OPTIONS)


_TEXT_OPTIONS = frozenset({"-m", "--message", "--author", "--date", "--title", "--body"})
_TAKE_TEXTS = frozenset(
    {*(("git", word) for word in ("commit", "tag", "merge", "stash")), ("gh", "pr"), ("gh", "issue")}
)

# Arguments by which a program runs another one, or writes where its name does not say. Long options may be cut short.
_ARGUMENTS: Mapping[str, re.Pattern[str]] = {
    name: re.compile(pattern, re.DOTALL)
    for name, pattern in {
        "find": r"-(exec|execdir|ok|okdir|delete|fprint|fprint0|fprintf|fls)",
        "fd": r"-[a-zA-Z]*[xX].*|--exec.*",
        "git": r"-c.*|--config-e.*|--ex.*|--up.*|--rece.*|-x.*|-O.*|--op.*|--textconv|ext::.*"
        r"|foreach|bisect|filter-branch|filter-repo|instaweb|difftool|mergetool|config|alias\..*|--git-dir.*|--work-t.*"
        r"|-C.*|daemon|shell|credential.*|send-email|--interactive-filter.*|--to-command.*|--templ.*|core\..*",
        "tar": r"-?[a-zA-Z]*[IF].*|--to-.*|--checkpoint-.*|--us.*|--rs.*|--rm.*|--inf.*|--new.*",
        "rg": r"--pre.*|--hostname-b.*|--search-zip|-z",
        "sort": r"--co.*|--ou.*|-[a-zA-Z]*o.*|-T.*",
        "rsync": r"-[a-zA-Z]*e.*|--rsh.*|--rsync-p.*",
        "ssh": r"-[a-zA-Z]*[oF].*",
        "scp": r"-[a-zA-Z]*[oFS].*",
        "sftp": r"-[a-zA-Z]*[oFSDP].*",
        "zip": r"-[a-zA-Z]*T.*|--unzip.*|--test.*",
        "tcpdump": r"-[a-zA-Z]*z.*|--postrot.*",
        "curl": r"-[a-zA-Z]*[KoO].*|--conf.*|--ou.*|--remote-.*|--dump-h.*|--cookie-j.*|--trace.*|-D.*|-c.*",
        "wget": r"--us.*|--conf.*|-[a-zA-Z]*[OPa].*|--ou.*|--di.*|-e.*|--exe.*",
        "make": r"SHELL=.*|-[a-zA-Z]*E.*|--eval.*|\.SHELLFLAGS=.*|MAKEFLAGS=.*",
        "go": r"-exec.*|-toolexec.*|-ldflags.*|-gcflags.*|-vettool.*|--exec.*|--toolexec.*|--vettool.*",
        "cargo": r"--config.*",
        "npm": r"--script-s.*|--prefix.*|-C.*|--node-o.*|--globalconf.*|--userconf.*",
        "yarn": r"--script-s.*|--cwd.*",
        "pnpm": r"--script-s.*|--shell-e.*|--dir.*|-C.*",
        "pip": r"--config-s.*|--python.*|--global-o.*",
        "man": r"-[a-zA-Z]*[PH].*|--pager.*|--html.*",
        "date": r"-[a-zA-Z]*[sf].*|--set.*|--file.*",
        "diff": r"--to-f.*|--from-f.*",
        "xxd": r"-r.*",
        "split": r"--filter.*",
        "gcc": r"-wrapper|-fplugin.*|-B.*|@.*|-specs.*|--specs.*",
        "openssl": r"-engine|-provider.*|-config",
        "psql": r"-[a-zA-Z]*[cfoL].*|--com.*|--fil.*|--out.*|--log.*",
        "sqlite3": r"-cmd|\..*|.*\n\..*",
        "mysql": r"-[a-zA-Z]*e.*|--exec.*|--pager.*|--tee.*",
        "journalctl": r"--vacuum.*|--rotate|--setup.*",
        "ps": r"-?[a-zA-Z]*[eE]{2,}.*",
        "tee": r"/dev/.*",
        "kubectl": r"exec|--kubeconf.*|cp|edit",
        "docker": r"--config.*|-H.*|--host.*",
        "pytest": r"-p.*|-c.*|--rootdir.*|--conf.*|--pdbcls.*|-o.*|--overr.*",
        "eslint": r"--rulesdir.*|--resolve-p.*|--plugin.*|--parser.*|-c.*|--config.*|-f.*|--format.*|-o.*|--output-f.*",
    }.items()
}

_SED_ADDRESS = r"(?:\d+|\$|/[^/\n\\]*/)"
_SED_COMMAND = re.compile(rf"(?:{_SED_ADDRESS}(?:,[+~]?{_SED_ADDRESS})?)?!? *[pdqlD=] *")
_SED_CHANGE = re.compile(
    rf"(?:{_SED_ADDRESS}(?:,{_SED_ADDRESS})?)? *s([/|,#:])"
    r"(?:(?!\1)[^\n\\]|\\[^\n])*\1(?:(?!\1)[^\n\\]|\\[^\n])*\1[gpiI\d]*"
)


def _is_plain_sed(values: Sequence[str]) -> bool:
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


def _is_plain_git(values: Sequence[str]) -> bool:
    return "clone" not in values or not any(value.startswith("-u") for value in values)  # there: a program of its own


_CHECKS: Mapping[str, Callable[[Sequence[str]], bool]] = {
    "git": _is_plain_git,
    "gsed": _is_plain_sed,
    "sed": _is_plain_sed,
}
