"""Rules that are written for the user: added, taken out again, and what else stands in the file left alone."""

import re
import stat
import tomllib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agentcore.errors import Unprocessable
from agentcore.permissions.rules import Rule, parse_entry
from agentcore.settings.documents import MAX_FILE_BYTES
from agentcore.settings.private import add_allow_rule, project_file, remove_allow_rule, text_of

MINE = """\
# my own words
mode = "plan"

[permissions]
allow = [
    "Bash(ls)",  # looking is harmless
    "Bash(make)",
]
deny = ["Bash(rm *)"]
"""


def test_a_rule_is_added_once_and_the_rest_stays(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(MINE)
    add_allow_rule(file, "Bash(git status)")
    add_allow_rule(file, "Bash(git status)")
    text = file.read_text()
    assert text.count("git status") == 1
    for kept in ("# my own words", 'mode = "plan"', "# looking is harmless", 'deny = ["Bash(rm *)"]'):
        assert kept in text


def test_a_rule_is_taken_out_and_the_rest_stays(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(MINE.replace('"Bash(make)",', '"Bash(make)", "Bash(make)",'))
    assert remove_allow_rule(file, "Bash(make)")
    assert not remove_allow_rule(file, "Bash(make)")
    text = file.read_text()
    assert "Bash(make)" not in text
    for kept in ("# my own words", "Bash(ls)", 'deny = ["Bash(rm *)"]'):
        assert kept in text


ODD = {
    "a comment behind the last": '[permissions]\nallow = [\n  "Bash(git status)" # harmless\n  # more\n]\n',
    "a comment on its line": '[permissions]\nallow = [ # why\n  "Bash(git status)", "Bash(ls)" # last\n]\n',
    "a comment alone": "[permissions]\nallow = [\n  # nothing yet\n]\n",
    "a table on one line": 'permissions = {allow = ["Bash(ls)"], deny = ["Read(.env)"]}\n',
    "dotted names": 'permissions.deny = ["Read(.env)"]\nmodel = "a/b"\n',
    "a table in it before": '[permissions.x]\ny = 1\n[other]\nz = 1\n[permissions]\ndeny = ["Read(.env)"]\n',
    "a table in it behind": '[permissions]\nallow = ["Bash(ls)"]\n[other]\na = 1\n[permissions.z]\nq = 1\n',
    "a list of tables behind": '[permissions]\ndeny = ["Read(.env)"]\n\n[[hooks.PreToolUse]]\nmatcher = "Bash"\n',
    "a list of tables alone": '[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype = "command"\ncommand = "x"\n',
    "no end of the last line": '[permissions]\ndeny = ["Read(.env)"]',
    "ends of lines of Windows": '[permissions]\r\nallow = [\r\n  "Bash(ls)" # last\r\n]\r\n# more\r\n',
    "a mark at its beginning": '\ufeff# mine\nmodel = "a/b"\n',
    "a rule that expires": '[permissions]\nallow = [{rule = "Bash(ls)", expires_at = 2030-01-01T00:00:00Z}]\n',
    "text of many lines": "note = '''\nallow = [\n'''\n[permissions]\nallow = [ '''Bash(ls)''' # [\n]\n",
}
RULES = ["Bash(git *)", r'Bash("a\\*b" # ' + "'x')", "Bash(a\nb\tc)", "Read(ü\u202e)", "Bash(\x7f)", 'Bash(echo """)']


@pytest.mark.parametrize("text", ODD.values(), ids=ODD)
@pytest.mark.parametrize("expires_at", [None, 2e9])
def test_a_file_says_the_same_as_before_and_the_rule_however_it_is_written(
    tmp_path: Path, text: str, expires_at: float | None
) -> None:
    file = tmp_path / "settings.toml"
    file.write_bytes(text.encode())
    before = tomllib.loads(text.removeprefix("\ufeff"))
    allow = before.setdefault("permissions", {}).setdefault("allow", [])
    for rule in RULES:
        add_allow_rule(file, rule, expires_at)
    added = tomllib.loads(file.read_text())["permissions"]["allow"]
    assert Counter(map(text_of, added)) == Counter([*map(text_of, allow), *RULES])
    for rule in RULES:
        assert remove_allow_rule(file, rule)
    assert tomllib.loads(file.read_text()) == before
    assert all(comment in file.read_text() for comment in re.findall(r"# \w+", text))


def test_a_change_that_would_not_say_what_it_should_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(MINE)
    monkeypatch.setattr("tomlkit.dumps", lambda document: MINE.replace("rm", "rm -r"))
    for change, rule in ((add_allow_rule, "Bash(git status)"), (remove_allow_rule, "Bash(ls)")):
        with pytest.raises(Unprocessable, match=r"settings\.toml .*by hand"):
            change(file, rule)
    assert file.read_text() == MINE


def test_a_file_is_never_made_larger_than_can_be_read(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(MINE + "#" * (MAX_FILE_BYTES - len(MINE)))
    with pytest.raises(Unprocessable, match=r"settings\.toml"):
        add_allow_rule(file, "Bash(git status)")
    assert file.stat().st_size == MAX_FILE_BYTES


def test_a_link_stays_and_what_it_leads_to_is_changed(tmp_path: Path) -> None:
    kept = tmp_path / "dotfiles" / "agentcore.toml"
    kept.parent.mkdir()
    kept.write_text(MINE)
    file = tmp_path / "config" / "settings.toml"
    file.parent.mkdir()
    file.symlink_to(Path("..") / "dotfiles" / "agentcore.toml")
    add_allow_rule(file, "Bash(git status)")
    assert file.is_symlink()
    assert "git status" in kept.read_text()
    assert remove_allow_rule(file, "Bash(git status)")
    assert file.is_symlink()
    assert tomllib.loads(kept.read_text()) == tomllib.loads(MINE)
    assert [one.name for one in kept.parent.iterdir()] == ["agentcore.toml"]


def test_a_link_that_leads_round_in_a_circle_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.symlink_to(file)
    with pytest.raises(Unprocessable, match=r"settings\.toml cannot be read"):
        add_allow_rule(file, "Bash(ls)")
    assert file.is_symlink()


def test_what_was_added_can_be_taken_out(tmp_path: Path) -> None:
    file = project_file(tmp_path / "config", "work-1")
    assert not remove_allow_rule(file, "Bash(ls)")
    assert not file.parent.exists()
    add_allow_rule(file, 'Bash(echo "hi")')
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert remove_allow_rule(file, 'Bash(echo "hi")')
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_file_that_others_could_read_is_private_after_a_change(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(MINE)
    file.chmod(0o644)
    remove_allow_rule(file, "Bash(ls)")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_nothing_is_written_where_there_is_nothing_to_take_out(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(MINE)
    before = file.stat()
    assert not remove_allow_rule(file, "Bash(rm *)")
    assert (file.read_text(), file.stat().st_ino) == (MINE, before.st_ino)


def test_a_rule_that_expires_is_written_with_its_time_and_taken_out_like_any_other(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(MINE)
    add_allow_rule(file, "Bash(cat)", 1_800_000_000.25)
    entry = tomllib.loads(file.read_text())["permissions"]["allow"][-1]
    assert entry == {"rule": "Bash(cat)", "expires_at": datetime(2027, 1, 15, 8, 0, 0, 250_000, UTC)}
    assert parse_entry(entry) == Rule("bash", "cat", expires_at=1_800_000_000.25)
    add_allow_rule(file, "Bash(cat)", 1_800_000_060.0)
    assert file.read_text().count("Bash(cat)") == 1
    add_allow_rule(file, "Bash(cat)")
    assert tomllib.loads(file.read_text())["permissions"]["allow"][-1] == "Bash(cat)"
    add_allow_rule(file, "Bash(cat)", 5.0)
    assert parse_entry(tomllib.loads(file.read_text())["permissions"]["allow"][-1]).expires_at == 5
    assert remove_allow_rule(file, "Bash(cat)")
    assert file.read_text() == MINE


@pytest.mark.parametrize("text", ["permissions = 3", "[permissions]\nallow = 3", "mode = ", "\x00"])
def test_a_broken_file_is_refused_and_stays(tmp_path: Path, text: str) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(text)
    for change in (add_allow_rule, remove_allow_rule):
        with pytest.raises(Unprocessable, match=r"settings\.toml"):
            change(file, "Bash(ls)")
    assert file.read_text() == text


def test_changes_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    rules = [f"Bash(echo {number})" for number in range(20)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda rule: add_allow_rule(file, rule), rules))
        list(pool.map(lambda rule: remove_allow_rule(file, rule), rules[:10]))
    assert [rule for rule in rules if rule in file.read_text()] == rules[10:]
