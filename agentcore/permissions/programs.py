"""Which programs run others, and by which arguments: tables, and the question whether a pattern may approve a command.

A pattern such as `git *` means what the program does by itself. What makes it run another program is approved only
by a rule that is that very command.
"""

import re
from collections.abc import Mapping, Sequence

from agentcore.permissions import git_commands
from agentcore.permissions.option_tables import options_of
from agentcore.permissions.options import NO_OPTIONS, Kind, Options, read_arguments
from agentcore.permissions.sed import is_plain_sed
from agentcore.permissions.shell import NO_FILE, Segment
from agentcore.permissions.words import Word, names

SHELLS = names("sh bash dash zsh ksh ash mksh fish csh tcsh rbash busybox toybox")

INTERPRETERS = SHELLS | names(
    """python pypy ipython node nodejs deno bun ruby perl php lua luajit tclsh expect Rscript julia osascript pwsh
    powershell groovy scala guile racket awk gawk mawk nawk"""
)
"""Run what their first argument says; with a version behind the name too."""

_WRAPPERS = names(
    """setpriv prlimit setarch linux32 linux64 i386 x86_64 fakeroot fakechroot choom uclampset sg perf start-stop-daemon
    chronic ifne unbuffer bwrap firejail numactl cpulimit proxychains proxychains4 torsocks tsocks dbus-launch
    dbus-run-session xvfb-run faketime eatmydata capsh runcon newgrp sshpass rlwrap catchsegv machinectl
    systemd-inhibit systemd-cat cgexec logsave retry timelimit lckdo gosu su-exec tini dumb-init chpst envdir setuidgid
    softlimit pgrphack daemonize dtach screen tmux xterm hyperfine pee run-parts sem flatpak-spawn coreutils
    with-lock-ex stdbuf unbuffer"""
)
RUN_OTHERS = _WRAPPERS | names(
    """env sudo doas su runuser pkexec watch setsid ionice chrt taskset flock strace ltrace gdb valgrind unshare nsenter
    chroot systemd-run at batch crontab script parallel xargs entr eval source . exec trap alias enable hash complete
    compgen bind mapfile readarray let declare typeset local readonly export unset read printf test getopts coproc
    fc history command builtin time nice nohup timeout stdbuf noglob ed ex vi vim nvim emacs nano less more man
    socat nc ncat telnet ssh-keygen dd"""
)
"""They run other programs, or change what the shell's names mean: no pattern approves them, but for those below."""

MEANT_BY_NAME = names("printf test export history less more man")
"""Of these: carry no command line of another program, so a pattern that begins with the name means them."""
LOOKED_THROUGH = names("timeout time nice nohup stdbuf command builtin noglob xargs")
"""Of these: a rule for the command behind them settles it."""
SHELL_LIKE = SHELLS | names("pwsh powershell")
"""Interpreters whose programs are command lines."""

CARRIERS = _WRAPPERS | names(
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
    **{
        name: names("run exec x dlx --")
        for name in (
            *(
                "docker",
                "podman",
                "kubectl",
                "npm",
                "pnpm",
                "yarn",
                "bun",
                "uv",
                "poetry",
                "bundle",
                "pipx",
                "tox",
                "mise",
            ),
            *("direnv", "conda", "hatch", "pdm", "pipenv", "rye", "op", "aws-vault"),
        )
    },
    "just": names("--command"),
}
"""As `CARRIERS`, but only behind one of these words: `git rm` is no `rm`."""

SCRIPT_RUNNERS = SHELLS | names(
    "eval trap ssh su sg watch script flock parallel env xargs sudo doas runuser at exec pee tmux screen hyperfine"
)
"""Their arguments may hold a shell line; deny and ask take it apart."""

PLAIN = names(
    """ls cat tac head tail nl wc stat file du df tree basename dirname realpath readlink cmp comm diff md5sum sha1sum
    sha256sum sha512sum cksum sum b2sum grep egrep fgrep rg ag ack whoami id uname hostname which whereis type true
    false : echo printf cd pushd popd pwd cp mv ln rm rmdir mkdir mktemp touch chmod chown chgrp install tee sort uniq
    cut paste tr rev fold fmt column pr od xxd hexdump strings base64 base32 iconv jq yq tar zip unzip gzip gunzip bzip2
    xz zstd 7z curl wget ping dig host nslookup ip ss netstat ps top htop pgrep pkill kill killall free uptime date cal
    sleep seq expr bc sed test [ git gh npm pnpm yarn bun cargo rustc rustup go gofmt docker podman kubectl helm
    terraform tofu make ninja cmake ctest gcc g++ cc c++ clang clang++ ld ar nm objdump strip pip pip3 pytest ruff black
    isort mypy pyright flake8 pylint tox nox eslint prettier tsc jest vitest mocha webpack vite mvn gradle ant dotnet
    swift flutter dart rails rake bundle gem composer mix brew apt apt-get dpkg dnf yum pacman systemctl journalctl aws
    gcloud az psql mysql sqlite3 redis-cli openssl gpg ssh-add scp sftp rsync uv poetry pipx hg svn truncate shred dd
    unlink patch split csplit shuf yes find fd fdfind locate export unset set shift wait jobs bg fg exit return break
    continue local read ulimit umask lsof file sum tput clear diffstat helmfile just task protoc bat delta"""
)
"""Programs that are known not to run what their arguments name, but for what the tables here say of them."""

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
    return is_interpreters_name(base_name(segment.words[0]) or "")


def is_interpreters_name(name: str) -> bool:
    return program_of(name) in INTERPRETERS


def program_of(name: str) -> str:
    """An interpreter without its version: `python3.12` is `python`."""
    bare = re.sub(r"[\d.]+$", "", name)
    return bare if bare in INTERPRETERS else name


def why_no_pattern(segment: Segment, head: str = "") -> str | None:
    """Why only a rule that is this very command approves it; None where a pattern may.

    `head` is the text of a pattern before its first `*`: a risky word that it spells is meant, unless it carries the
    command line of another program.
    """
    words = segment.words
    name = base_name(words[0]) or ""
    if name in RUN_OTHERS and not (name in MEANT_BY_NAME and first_name(head) == name):
        return f"{name} can run other programs"
    meant = _texts(name, words) | _spelled(name, words, head)
    if name == "git":
        return git_commands.why_not_plain(words, meant, head)
    options = options_of(name) or (NO_OPTIONS if name in _COMMANDS else None)
    if options is not None and (why := _why_options(name, options, words, meant, head)) is not None:
        return why
    values = [word.loose for at, word in enumerate(words) if at and at not in meant]
    if name in ("sed", "gsed") and not is_plain_sed(values):
        return f"an argument may make {name} run other programs"
    if (odd := _ODD_WORDS.get(name)) is not None and any(map(odd.fullmatch, values)):
        return f"an argument makes {name} run other programs or write files"
    return None


def _why_options(name: str, options: Options, words: Sequence[Word], meant: frozenset[int], head: str) -> str | None:
    arguments = read_arguments(options, words)
    risky = [one for one in arguments.of(Kind.RUNS, Kind.WRITES) if one.at not in meant]
    if any(Kind.RUNS in one.kinds or not _is_no_file(one.value) for one in risky):
        return f"an argument makes {name} run other programs or write files"
    if any(one.at not in meant and not is_own_path(one.value) for one in arguments.of(Kind.FOLDER)):
        return f"an argument makes {name} work in another place"
    commands = [(at, word) for at, word in arguments.operands if word.value in _COMMANDS.get(name, ())]
    if any(at not in meant and not _is_spelled(words, at, head) for at, word in commands[:1]):
        return f"an argument makes {name} run other programs or change its settings"
    has_risk = Kind.RUNS in options.kinds.values() or Kind.WRITES in options.kinds.values() or name in _ODD_WORDS
    if has_risk and any(word.starts_unknown and at not in meant for at, word in enumerate(words) if at):
        return f"an argument of {name} is not known before it runs"
    return None


def _is_no_file(value: Word | None) -> bool:
    return value is not None and (value.value in NO_FILE or value.value == "-")


def is_own_path(word: Word | None) -> bool:
    """Whether it is a path from the folder that does not lead out of it by its words."""
    value = None if word is None else word.value
    return value is not None and not value.startswith(("/", "~")) and ".." not in value.split("/")


def _is_spelled(words: Sequence[Word], at: int, head: str) -> bool:
    return f"{head} ".startswith("".join(f"{word.raw} " for word in words[: at + 1]))


def first_name(head: str) -> str:
    """The program that a pattern's head begins with, without its folder."""
    return head.split(" ", 1)[0].rpartition("/")[2]


def _spelled(name: str, words: Sequence[Word], head: str) -> frozenset[int]:
    """Places of the arguments that are meant because the head of the pattern spells them."""
    found, text = set[int](), ""
    for at, word in enumerate(words if name in _MEANT_ARGUMENTS else ()):
        text += f"{word.raw} "
        if not f"{head} ".startswith(text):
            break
        if at and word.raw in _WITH_ALL_BEHIND:
            return frozenset({*found, *range(at, len(words))})
        if at and _MEANT_ARGUMENTS[name].fullmatch(word.raw):
            found.add(at)
    return frozenset(found)


_MEANT_ARGUMENTS: Mapping[str, re.Pattern[str]] = {
    "git": re.compile(r"-C"),
    "kubectl": re.compile(r"cp"),
    "npm": re.compile(r"-C|--prefix(=.*)?"),
    "pnpm": re.compile(r"-C|--dir(=.*)?"),
    "yarn": re.compile(r"--cwd(=.*)?"),
}
"""Arguments that make a program work elsewhere. What carries a command line (`git -c`, `find -exec`) is not here."""
_WITH_ALL_BEHIND = frozenset({"config", "exec"})
"""`git config`, `kubectl exec`: what stands behind them is theirs."""


def _texts(name: str, words: Sequence[Word]) -> frozenset[int]:
    """Places of the arguments that are text, such as the message of a commit."""
    if (name, words[1].value if len(words) > 1 else None) not in _TAKE_TEXTS:
        return frozenset()
    return frozenset(at for at in range(2, len(words)) if words[at - 1].value in _TEXT_OPTIONS)


_TEXT_OPTIONS = frozenset({"-m", "--message", "--author", "--date", "--title", "--body"})
_TAKE_TEXTS = frozenset(
    {*(("git", word) for word in ("commit", "tag", "merge", "stash")), ("gh", "pr"), ("gh", "issue")}
)

_COMMANDS: Mapping[str, frozenset[str]] = {
    "gh": names("alias extension extensions ext codespace cs"),
    "go": names("tool"),
    "helm": names("plugin"),
    "ip": names("exec netns"),
    "kubectl": names("exec cp edit debug plugin"),
    "npm": names("exec x config c set explore edit"),
    "openssl": names("engine"),
    "pnpm": names("dlx exec config"),
    "systemctl": names("edit link"),
    "yarn": names("dlx exec config node"),
}
"""First arguments behind which other programs run, or by which a program is told to."""

_ODD_WORDS: Mapping[str, re.Pattern[str]] = {
    name: re.compile(pattern, re.DOTALL)
    for name, pattern in {
        "cc": r"@.*",
        "clang": r"@.*",
        "curl": r".*%output.*",
        "date": r"[^-+].*",
        "g++": r"@.*",
        "gcc": r"@.*",
        "less": r"\+.*",
        # Variables of a makefile run what they hold; numbers and switches do not.
        "make": r"(?!-)(?!(?!MAKE|SHELL)\w+=(?:[\d.]*|true|false|yes|no|on|off|[yn])$).*=.*",
        "more": r"\+.*",
        "mvn": r".*exec:.*|.*:exec.*|-s.*|--settings.*|-gs|--global-settings.*",
        "ps": r"-?[a-zA-Z]*[eE]{2,}.*",
        "psql": r".*\\.*",
        "sqlite3": r"\..*|.*\n\s*\..*",
        "tee": r"/dev/.*",
    }.items()
}
"""Other words that are risky."""
