"""Skills as they are found: which folders, which names, what their heads say, and what a hostile repository gets."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentcore.skills.expanding import read_text
from agentcore.skills.finding import MAX_NOTICES, MAX_SKILLS, find_skills
from agentcore.skills.places import personal_folders
from agentcore.skills.skill import SkillIndex
from agentcore.within import Places, top_of


@pytest.fixture
def places(tmp_path: Path) -> Places:
    base = tmp_path.resolve()
    work = base / "work"
    cwd = work / "app" / "src"
    for folder in (cwd, base / "home" / ".ssh", base / "config"):
        folder.mkdir(parents=True)
    (base / "home/.ssh/id_rsa").write_text("PRIVATE")
    hidden = (base / "home/.ssh", base / "config", work / "closed")

    def is_closed(real: Path) -> bool:
        return any(real.is_relative_to(one) for one in hidden)

    return Places(cwd, top_of(cwd, (work,)), (work,), base / "home", base / "config", is_closed)


def put(folder: Path, name: str, text: str = "---\ndescription: d\n---\nbody\n") -> Path:
    file = folder / name / "SKILL.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def origins(index: SkillIndex) -> dict[str, tuple[str, bool]]:
    return {name: (skill.origin.name, skill.is_shared) for name, skill in index.skills.items()}


# --- where they lie ---


def test_every_folder_is_looked_into_from_the_working_folder_up_to_the_root(places: Places) -> None:
    put(places.config_dir / "skills", "a")
    put(places.home / ".claude/skills", "b")
    put(places.home / ".agents/skills", "c")
    put(places.cwd / ".agentcore/skills", "d")
    put(places.cwd.parent / ".claude/skills", "e")
    put(places.top / ".agents/skills", "f")
    put(places.top.parent / ".claude/skills", "above")
    put(places.cwd / "below/.claude/skills", "below")
    index = find_skills(places)
    assert origins(index) == {
        "a": ("your skills", False),
        "b": ("~/.claude/skills", False),
        "c": ("~/.agents/skills", False),
        "d": ("app/src/.agentcore/skills", True),
        "e": ("app/.claude/skills", True),
        "f": (".agents/skills", True),
    }
    assert index.notices == ()


def test_commands_have_the_names_of_their_folders(places: Places) -> None:
    commands = places.cwd / ".claude/commands"
    (commands / "git/deep").mkdir(parents=True)
    (commands / "fix.md").write_text("Fix it.")
    (commands / "git/deep/squash.md").write_text("---\ndescription: Squash\n---\nNow.")
    (commands / "notes.txt").write_text("no command")
    (places.home / ".claude/commands").mkdir(parents=True)
    (places.home / ".claude/commands/mine.md").write_text("Mine.")
    index = find_skills(places)
    assert {name: skill.description for name, skill in index.skills.items()} == {
        "fix": "Fix it.",
        "git:deep:squash": "Squash",
        "mine": "Mine.",
    }


def test_folders_of_commands_behind_links_are_not_looked_into(places: Places) -> None:
    commands = places.cwd / ".claude/commands"
    (commands / "real").mkdir(parents=True)
    (commands / "real/x.md").write_text("x")
    (commands / "again").symlink_to("real")
    (commands / "loop").symlink_to(".")
    index = find_skills(places)
    assert (list(index.skills), index.notices) == (["real:x"], ())


def test_a_name_is_taken_by_the_users_own_then_by_the_nearest_with_a_notice(places: Places) -> None:
    for folder in (places.home, places.cwd, places.top):
        put(folder / ".claude/skills", "deploy")
    put(places.cwd / ".claude/skills", "near")
    put(places.top / ".claude/skills", "near")
    index = find_skills(places)
    assert origins(index) == {
        "deploy": ("~/.claude/skills", False),
        "near": ("app/src/.claude/skills", True),
    }
    assert sorted(index.notices) == [
        ".claude/skills/deploy/SKILL.md: ~/.claude/skills has a skill deploy too, and that one counts.",
        ".claude/skills/near/SKILL.md: app/src/.claude/skills has a skill near too, and that one counts.",
        "app/src/.claude/skills/deploy/SKILL.md: ~/.claude/skills has a skill deploy too, and that one counts.",
    ]


def test_a_skill_that_is_linked_from_one_folder_of_the_users_into_another_is_one(places: Places) -> None:
    put(places.home / ".agents/skills", "shared")
    (places.home / ".claude/skills").mkdir(parents=True)
    (places.home / ".claude/skills/shared").symlink_to(places.home / ".agents/skills/shared")
    index = find_skills(places)
    assert (list(index.skills), index.notices) == (["shared"], ())


def linked(places: Places, target: Path) -> None:
    """Link a skill into the user's own folder."""
    (places.home / ".claude/skills").mkdir(parents=True, exist_ok=True)
    (places.home / ".claude/skills/linked").symlink_to(target)


@pytest.mark.parametrize("is_file", [False, True])
def test_a_link_in_the_users_own_folder_is_followed_wherever_it_leads(places: Places, is_file: bool) -> None:
    file = put(places.home / "dotfiles/skills", "linked", "---\nallowed-tools: Bash\n---\nx")
    if is_file:
        (places.home / ".claude/commands").mkdir(parents=True)
        (places.home / ".claude/commands/linked.md").symlink_to(file)
    else:
        linked(places, file.parent)
    index = find_skills(places)
    assert index.notices == ()
    skill = index.skills["linked"]
    assert (skill.is_shared, skill.allowed_tools, read_text(skill)) == (False, ("Bash",), "x")


def test_what_lies_beside_a_linked_skill_may_be_read_and_nothing_else_there(places: Places) -> None:
    file = put(places.home / "dotfiles/skills", "linked")
    linked(places, file.parent)
    (places.home / ".claude/skills/none").symlink_to(places.home / "dotfiles")
    (places.home / ".claude/skills/keys").symlink_to(places.home / ".ssh")
    assert personal_folders(places)[4:] == (file.parent,)


def test_a_link_of_the_users_into_the_project_is_trusted_as_little_as_the_project(places: Places) -> None:
    linked(places, put(places.top / "skills", "linked", "---\nallowed-tools: Bash\n---\nx").parent)
    index = find_skills(places)
    assert (index.skills["linked"].is_shared, index.skills["linked"].allowed_tools) == (True, ())


@pytest.mark.parametrize("via", ["the skill's folder", "its file", "a folder above", "a second link"])
def test_a_link_of_the_projects_leads_no_skill_of_the_users_elsewhere(places: Places, via: str) -> None:
    secret = put(places.home / "private", "linked").parent
    inside = places.top / "skills"
    inside.mkdir()
    match via:
        case "the skill's folder":
            (inside / "linked").symlink_to(secret)
            linked(places, inside / "linked")
        case "its file":
            (inside / "linked").mkdir()
            (inside / "linked/SKILL.md").symlink_to(secret / "SKILL.md")
            linked(places, inside / "linked")
        case "a folder above":
            (inside / "up").symlink_to(secret.parent)
            linked(places, inside / "up/linked")
        case "a second link":
            (inside / "linked").symlink_to(secret)
            (places.home / "mine").symlink_to(inside)
            linked(places, places.home / "mine" / ".." / "skills" / "linked")
    index = find_skills(places)
    assert index.skills == {}
    assert index.notices == (
        "~/.claude/skills/linked/SKILL.md leads out of your folders of skills: the skill is left out.",
    )
    assert len(personal_folders(places)) == 4


def test_where_the_home_is_the_project_the_users_skills_are_found_once_and_trusted_as_little_as_the_project(
    places: Places,
) -> None:
    put(places.home / ".claude/skills", "mine", "---\nallowed-tools: Bash\n---\nx")
    home = places.home.resolve()
    index = find_skills(replace(places, cwd=home, top=home, roots=(home,)))
    assert (index.skills["mine"].is_shared, index.skills["mine"].allowed_tools) == (True, ())
    assert index.notices == ()


def test_the_folders_beside_the_users_skills_are_named_for_the_tool_read(places: Places) -> None:
    assert personal_folders(places) == (
        places.config_dir / "skills",
        places.home / ".claude/skills",
        places.home / ".agents/skills",
        places.home / ".claude/commands",
    )


# --- what a head says ---

EVERYTHING = """\
---
name: Another name
description: What it does
when_to_use: When asked
argument-hint: "[env]"
arguments: env region
disable-model-invocation: yes
user-invocable: off
allowed-tools: Bash(git add:*), Read
disallowed-tools: [Write, "Bash(rm *)"]
model: opus
effort: high
context: fork
agent: explore
background: true
hooks: {PreToolUse: [{hooks: [{type: command, command: "touch /tmp/x"}]}]}
paths: ["src/**"]
shell: bash
metadata: {author: me, version: 1.0}
license: MIT
compatibility: any
date: 2024-99-99
something-new: 1
---
Body
"""


def test_every_key_that_people_write_is_taken(places: Places) -> None:
    put(places.home / ".claude/skills", "all", EVERYTHING)
    index = find_skills(places)
    skill = index.skills["all"]
    assert index.notices == ()
    assert (skill.name, skill.description, skill.when_to_use) == ("all", "What it does", "When asked")
    assert (skill.argument_hint, skill.arguments) == ("[env]", ("env", "region"))
    assert (skill.is_for_model, skill.is_for_user) == (False, False)
    assert skill.allowed_tools == ("Bash(git add:*)", "Read")
    assert skill.disallowed_tools == ("Write", "Bash(rm *)")


def test_a_skill_of_a_repository_tightens_and_never_loosens(places: Places) -> None:
    put(places.cwd / ".claude/skills", "all", EVERYTHING)
    skill = find_skills(places).skills["all"]
    assert (skill.allowed_tools, skill.disallowed_tools) == ((), ("Write", "Bash(rm *)"))


@pytest.mark.parametrize("word", ["yes", "Yes", "on", "1", "true", "TRUE", "'true'"])
def test_a_switch_is_on(places: Places, word: str) -> None:
    put(places.cwd / ".claude/skills", "s", f"---\ndisable-model-invocation: {word}\n---\nx")
    assert not find_skills(places).skills["s"].is_for_model


@pytest.mark.parametrize("word", ["no", "off", "0", "false"])
def test_a_switch_is_off(places: Places, word: str) -> None:
    put(places.cwd / ".claude/skills", "s", f"---\nuser-invocable: {word}\n---\nx")
    assert not find_skills(places).skills["s"].is_for_user


def test_a_word_that_is_no_switch_is_told_and_keeps_the_model_out(places: Places) -> None:
    put(places.cwd / ".claude/skills", "s", "---\ndisable-model-invocation: perhaps\n---\nx")
    index = find_skills(places)
    assert not index.skills["s"].is_for_model
    assert index.notices == (
        "app/src/.claude/skills/s/SKILL.md: `disable-model-invocation` is neither true nor false.",
    )


@pytest.mark.parametrize(
    ("text", "description"),
    [
        ("# Title\n\nFirst words\nof it.\n\nMore.", "First words of it."),
        ("# Only a title\n", "Only a title"),
        ("", ""),
        ("---\ndescription: Use this: when asked\n---\n", "Use this: when asked"),
        ("---\ndescription: >\n  folded\n  text\n---\n", "folded text"),
        ("---\r\ndescription: d\r\n---\r\nx", "d"),
        ("\ufeff---\ndescription: d\n---\nx", "d"),
        ("---\n---\nBody words.", "Body words."),
        ("---\ndescription: a\u202eb\x07\U000e0041c\n---\n", "abc"),
    ],
)
def test_a_description_is_found(places: Places, text: str, description: str) -> None:
    put(places.cwd / ".claude/skills", "s", text)
    index = find_skills(places)
    assert (index.skills["s"].description, index.notices) == (description, ())


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("---\ndescription: d\nx: [1,\n---\nbody", 3, "its frontmatter is no YAML"),
        ("---\n- a\n- b\n---\nbody", 2, "its frontmatter holds no keys"),
        ("---\ndescription: d\nbody", 1, "its frontmatter has no end"),
        (f"---\nx: {'[' * 8000}\n---\n", 1, "its frontmatter has more than 200 brackets"),
        (f"---\n{'- ' * 8000}\n---\n", 1, "its frontmatter is no YAML"),
        ("---\na: &x [*x]\n---\n", 2, "its frontmatter is no YAML"),
        (f"---\nx: {'y' * 20_000}\n---\n", 1, "its frontmatter is longer than 16,384 characters"),
    ],
)
def test_a_broken_head_is_told_with_its_line_and_the_rest_works(places: Places, text: str, line: int, why: str) -> None:
    folder = places.cwd / ".claude/skills"
    put(folder, "bad", text)
    put(folder, "good")
    index = find_skills(places)
    assert list(index.skills) == ["good"]
    assert index.notices == (f"app/src/.claude/skills/bad/SKILL.md:{line}: {why}: the skill is left out. Mend it.",)


# --- a hostile repository ---


def hostile(places: Places, what: str) -> None:
    folder = places.cwd / ".claude/skills"
    skill = folder / "bad"
    file = skill / "SKILL.md"
    outside = places.top.parent / "outside"
    put(outside, "x")
    folder.mkdir(parents=True)
    match what:
        case "a folder that leads out":
            skill.symlink_to(outside / "x")
        case "a file that leads out":
            skill.mkdir()
            file.symlink_to(places.home / ".ssh/id_rsa")
        case "a file that leads to credentials inside":
            skill.mkdir()
            (places.roots[0] / "closed").mkdir()
            (places.roots[0] / "closed/key").write_text("PRIVATE")
            file.symlink_to(places.roots[0] / "closed/key")
        case "a loop of links":
            skill.mkdir()
            file.symlink_to(file)
        case "a pipe":
            skill.mkdir()
            os.mkfifo(file)
        case "a folder in the place of a file":
            file.mkdir(parents=True)
        case "a gigabyte of nothing":
            skill.mkdir()
            with file.open("wb") as sparse:
                sparse.truncate(1 << 30)
        case "too much text":
            put(folder, "bad", "x" * 200_000)
        case "no text":
            skill.mkdir()
            file.write_bytes(b"\x7fELF\0\0")
        case _:
            raise AssertionError(what)


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("a folder that leads out", "leads out of the project"),
        ("a file that leads out", "leads out of the project"),
        ("a file that leads to credentials inside", "leads to credentials or to the server's own state"),
        ("a loop of links", "cannot be resolved (a loop of links, or a name that is none)"),
        ("a pipe", "is no regular file"),
        ("a folder in the place of a file", "is a folder"),
        ("a gigabyte of nothing", "is no text"),
        ("too much text", "is larger than 128 KiB"),
        ("no text", "is no text"),
    ],
)
def test_what_is_no_skill_is_left_out_with_a_notice_and_the_rest_works(places: Places, what: str, why: str) -> None:
    hostile(places, what)
    put(places.cwd / ".agents/skills", "good")
    index = find_skills(places)
    assert list(index.skills) == ["good"]
    assert index.notices == (f"app/src/.claude/skills/bad/SKILL.md {why}: the skill is left out.",)


def test_a_whole_folder_that_leads_out_is_left_out(places: Places) -> None:
    put(places.top.parent / "outside", "x")
    (places.cwd / ".claude").mkdir()
    (places.cwd / ".claude/skills").symlink_to(places.top.parent / "outside")
    index = find_skills(places)
    assert (dict(index.skills), index.notices) == (
        {},
        ("app/src/.claude/skills leads out of the project: its skills are left out.",),
    )


@pytest.mark.parametrize("name", ["with space", "-dash", "a\nb", "x" * 65, "ta\u202eg"])
def test_a_name_that_cannot_stand_behind_a_slash_is_told(places: Places, name: str) -> None:
    put(places.cwd / ".claude/skills", name)
    index = find_skills(places)
    assert dict(index.skills) == {}
    [notice] = index.notices
    assert notice.endswith("its name is no word that can stand behind a slash.")
    assert "\n" not in notice


def test_a_flood_of_skills_is_bounded_and_so_is_what_is_told_of_it(places: Places) -> None:
    folder = places.cwd / ".claude/skills"
    for number in range(MAX_SKILLS + 1):
        put(folder, f"s{number:05}", "---\n- broken\n---\n" if number < 50 else "x")
    put(places.home / ".claude/skills", "mine")
    index = find_skills(places)
    assert len(index.skills) == MAX_SKILLS - 50
    assert "mine" in index.skills  # the user's own come first
    assert len(index.notices) == MAX_NOTICES + 1
    assert index.notices[-1] == "31 more things are wrong with skills."


def test_heads_that_are_large_on_purpose_are_not_all_read(places: Places) -> None:
    head = "a: [" + "x, " * 5_000 + "]"
    for number in range(40):
        put(places.cwd / ".claude/skills", f"s{number:02}", f"---\n{head}\n---\nx")
    index = find_skills(places)
    assert list(index.skills) == [f"s{number:02}" for number in range(17)]
    assert index.notices == (
        "app/src/.claude/skills/s17/SKILL.md: it is one too many, and so are all skills behind it.",
    )


@pytest.mark.parametrize("head", ["x: y" + " " * 16_000 + "z: [", "description: a" + ": b" * 5_000])
def test_a_head_that_is_slow_on_purpose_is_not(places: Places, head: str) -> None:
    for number in range(15):
        put(places.cwd / ".claude/skills", f"s{number}", f"---\n{head}\n---\nx")
    assert len(find_skills(places).skills) == 15


def test_nothing_of_a_skill_runs_by_being_found(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("something was started")

    monkeypatch.setattr("subprocess.Popen", refuse)
    monkeypatch.setattr("os.posix_spawn", refuse)
    mark = places.cwd / "ran"
    put(places.cwd / ".claude/skills", "s", f"---\nshell: bash\n---\n!`touch {mark}`\n")
    assert list(find_skills(places).skills) == ["s"]
    assert not mark.exists()
