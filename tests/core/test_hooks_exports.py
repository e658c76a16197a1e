"""What SessionStart hooks export for later commands: as a shell reads it, with nothing run and no secret in it."""

from pathlib import Path

import pytest

from agentcore.events import ToolEnd
from agentcore.hooks.exports import Exports, read_exports
from server.schemas import AnswerBody
from tests.core.test_hooks_runs import notices, of_kind, script, settings
from tests.fakes import House, call, house, say, use

pytestmark = pytest.mark.anyio
ENVIRON = {"PATH": "/usr/bin:/bin", "HOME": "/home/me"}
LONGER = "/home/me/bin:/usr/bin:/bin"


@pytest.mark.parametrize(
    ("text", "variables"),
    [
        ("export A=1\nexport B=two\n", {"A": "1", "B": "two"}),
        ("A=1", {"A": "1"}),
        ("export A=1; export B=2 C=3 # and no more\n# A=4\n\n  export D=4", {"A": "1", "B": "2", "C": "3", "D": "4"}),
        ("export A=1\r\nexport A=2\r\n", {"A": "2"}),
        ("export PATH=$PATH:/opt/bin", {"PATH": "/usr/bin:/bin:/opt/bin"}),
        ('export PATH="$HOME/bin:${PATH}"\nexport X=$PATH', {"PATH": LONGER, "X": LONGER}),
        ("export A=$NONE-${NONE}x", {"A": "-x"}),
        ("export A='$PATH `x` \"q\"'", {"A": '$PATH `x` "q"'}),
        (r'export A="\$HOME \"q\" \\ \n"', {"A": r'$HOME "q" \ \n'}),
        (r"export A=a\ b\$c", {"A": "a b$c"}),
        ("export A='two\nlines'\nexport B=2", {"A": "two\nlines", "B": "2"}),
        ('declare -x A="1"\ndeclare -x B="x y"', {"A": "1", "B": "x y"}),
        ("export A= B=2", {"A": "", "B": "2"}),
        ("export A=it's fine'", {"A": "its fine"}),
        ("export A=100$ B=$", {"A": "100$", "B": "$"}),
    ],
)
def test_exports_are_read_as_a_shell_reads_them(text: str, variables: dict[str, str]) -> None:
    told: list[str] = []
    assert read_exports(text, ENVIRON, told.append) == variables
    assert told == []


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("export A=$5", "it would have to be run"),
        ("export A=$?", "it would have to be run"),
        ("export A=$(touch ran)", "it would have to be run"),
        ("export A=`touch ran`", "it would have to be run"),
        ('export A="$(touch ran)"', "it would have to be run"),
        ("export A=${B:-x}", "it would have to be run"),
        ("export A=1 && touch ran", "it is no `export NAME=value`"),
        ("export A=1|x", "it would have to be run"),
        ("export A=$'x'", "it would have to be run"),
        ("touch ran", "it is no `export NAME=value`"),
        ("export A", "it is no `export NAME=value`"),
        ("export 1A=x", "it is no `export NAME=value`"),
        ("unset PATH", "it is no `export NAME=value`"),
    ],
)
def test_a_line_that_would_have_to_be_run_is_left_out_and_the_rest_counts(line: str, why: str) -> None:
    told: list[str] = []
    assert read_exports(f"export B=1\n{line}\nexport C=2\n", ENVIRON, told.append) == {"B": "1", "C": "2"}
    assert told == [f"Line 2 of CLAUDE_ENV_FILE is left out: {why}."]


def test_a_quote_without_an_end_is_told_and_endless_files_are_left_out(tmp_path: Path) -> None:
    told: list[str] = []
    assert read_exports("export A='x\nexport B=1", {}, told.append) == {"B": "1"}
    assert told == ["Line 1 of CLAUDE_ENV_FILE is left out: a quote has no end."]
    exports = Exports(tmp_path, {})
    exports.begin(has_writers=True)
    exports.file.write_text("export A=1\n" * 30_000)
    [why] = exports.read()
    assert (why.endswith("larger than 256 KiB: it is left out."), exports.variables) == (True, {})


def test_no_secret_and_nothing_of_the_servers_own_gets_into_a_command(tmp_path: Path) -> None:
    exports = Exports(tmp_path, {}, {"MY_MODEL"})
    exports.begin(has_writers=True)
    names = ("MY_MODEL", "OPENAI_API_KEY", "GITHUB_TOKEN", "AGENTCORE_MODE", "NODE_ENV")
    exports.file.write_text("".join(f"export {name}=x\n" for name in names))
    assert len(exports.read()) == 4
    assert exports.variables == {"NODE_ENV": "x"}
    assert Exports(tmp_path, {}).variables == {"NODE_ENV": "x", "MY_MODEL": "x"}  # after a crash


async def shown(home: House, session: str | None = None) -> tuple[str, list[str]]:
    """What a command sees, in a new session or in one that is loaded; and what was told."""
    live = await home.session() if session is None else await home.reload(session)
    home.provider.script(use(call("bash", command='printf %s "$STAGE"')), say("ok"))
    events = await home.run(live, "go", [AnswerBody(allow=True)])
    await home.hub.close(live, "test")
    return of_kind(events, ToolEnd)[0].output.split("\n")[0], [live.id, *notices(events, "hook_failed")]


async def test_commands_get_what_a_session_start_hook_exports_until_the_next_context(tmp_path: Path) -> None:
    line = script(
        tmp_path,
        "env.sh",
        "#!/bin/bash\necho 'export STAGE=test' >> \"$CLAUDE_ENV_FILE\"\necho 'x y' >> \"$CLAUDE_ENV_FILE\"\n",
    )
    settings(tmp_path, SessionStart=[{"command": line}])
    async with house(tmp_path) as home:
        output, (session, *told) = await shown(home)
        assert output == "test"
        assert told == ["Line 2 of CLAUDE_ENV_FILE is left out: it is no `export NAME=value`."]
    (tmp_path / "config/settings.toml").unlink()
    async with house(tmp_path) as home:
        assert await shown(home, session) == ("(no output)", [session])


async def test_a_run_that_goes_on_after_a_crash_has_what_was_exported(tmp_path: Path) -> None:
    line = script(tmp_path, "env.sh", "#!/bin/bash\necho 'export STAGE=test' >> \"$CLAUDE_ENV_FILE\"\n")
    settings(tmp_path, SessionStart=[{"command": line}])
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(use(call("bash", command='printf %s "$STAGE"')))
        live.prompt("go")
        await home.until_asked(live)
    async with house(tmp_path) as home:
        live = await home.reload(live.id)
        home.provider.script(say("ok"))
        live.answer("perm-1", AnswerBody(allow=True))
        await home.until_idle(live)
        assert of_kind(home.events(live), ToolEnd)[0].output.startswith("test\n")
