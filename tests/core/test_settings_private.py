"""Rules that are written for the user: added, taken out again, and what else stands in the file left alone."""

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agentcore.errors import Unprocessable
from agentcore.settings.private import add_allow_rule, project_file, remove_allow_rule

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
