"""Files that describe subagents: where they are found, what of them counts, and what a broken or hostile one costs."""

from pathlib import Path

import pytest

from agentcore.events import Mode
from agentcore.ports.tools import ToolSpec
from agentcore.subagents.finding import MAX_NOTICES, find_agents
from agentcore.subagents.kinds import BUILT_IN, EXPLORE, GENERAL, AgentIndex, AgentKind
from agentcore.subagents.modes import mode_of
from agentcore.subagents.tool import ALL_LISTED_CHARS, TaskInput, TaskTool, described
from agentcore.values import Value
from agentcore.within import Places
from tests.core.test_skills import places

__all__ = ["places"]

MINE = THEIRS = ".claude/agents"


def put(
    folder: Path, name: str = "helper.md", head: str = "name: helper\ndescription: Helps.", body: str = "Help."
) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"---\n{head}\n---\n{body}\n")
    return file


def only(index: AgentIndex, name: str = "helper") -> AgentKind:
    kind = index.find(name)
    assert kind is not None, index.notices
    return kind


def own(index: AgentIndex) -> dict[str, tuple[str, bool]]:
    return {
        name: (kind.origin.name, kind.origin.is_shared) for name, kind in index.kinds.items() if name not in BUILT_IN
    }


def test_every_folder_is_looked_into_the_users_own_first(places: Places) -> None:
    for number, folder in enumerate(
        (
            places.config_dir / "agents",
            places.home / ".claude/agents",
            places.home / ".agents/agents",
            places.cwd / ".agentcore/agents",
            places.cwd.parent / ".claude/agents",
            places.top / ".agents/agents",
            places.top.parent / ".claude/agents",
            places.cwd / "below/.claude/agents",
        )
    ):
        put(folder, head=f"name: a{number}\ndescription: d")
    assert own(find_agents(places)) == {
        "a0": ("your agents", False),
        "a1": ("~/.claude/agents", False),
        "a2": ("~/.agents/agents", False),
        "a3": ("app/src/.agentcore/agents", True),
        "a4": ("app/.claude/agents", True),
        "a5": (".agents/agents", True),
    }


def test_files_in_folders_are_found_and_those_behind_links_are_not(places: Places) -> None:
    put(places.cwd / THEIRS / "team/web", head="name: deep\ndescription: d")
    put(places.cwd / "elsewhere", head="name: linked\ndescription: d")
    (places.cwd / THEIRS / "link").symlink_to(places.cwd / "elsewhere")
    assert set(own(find_agents(places))) == {"deep"}


def test_a_name_is_taken_by_the_users_own_and_a_repository_takes_no_built_in_one(places: Places) -> None:
    put(places.home / MINE)
    put(places.cwd / THEIRS)
    put(places.cwd / THEIRS, "explore.md", "name: Explore\ndescription: Mine now.")
    put(places.home / MINE, "general.md", "name: general-purpose\ndescription: As I like it.")
    index = find_agents(places)
    assert only(index).origin.name == "~/.claude/agents"
    assert only(index, "explore") is EXPLORE
    assert only(index, "general-purpose").description == "As I like it."
    assert index.notices == (
        "app/src/.claude/agents/explore.md: there is a built-in agent Explore, and that one counts.",
        "app/src/.claude/agents/helper.md: ~/.claude/agents has an agent helper too, and that one counts.",
    )


def test_every_key_that_people_write_is_taken(places: Places) -> None:
    put(
        places.home / MINE,
        head="""name: Reviewer
description: Reviews: everything.
tools: Read, Grep, mcp__github__*
disallowedTools: [Bash, WebFetch]
model: anthropic/claude-haiku-4-5
permissionMode: acceptEdits
maxTurns: 7
effort: low
background: yes
isolation: worktree
color: blue
skills: [one, /two]""",
        body="You review.",
    )
    index = find_agents(places)
    kind = only(index, "reviewer")
    assert index.notices == ()
    assert (kind.name, kind.description, kind.prompt) == ("Reviewer", "Reviews: everything.", "You review.")
    assert (kind.tools, kind.disallowed) == (("Read", "Grep", "mcp__github__*"), ("Bash", "WebFetch"))
    assert (kind.model, kind.mode, kind.max_turns, kind.effort) == (
        "anthropic/claude-haiku-4-5",
        "accept-edits",
        7,
        "low",
    )
    assert (kind.is_background, kind.is_isolated, kind.skills) == (True, True, ("one", "/two"))


def test_what_nothing_comes_of_is_told_once_for_each_file(places: Places) -> None:
    put(places.home / MINE, head="name: helper\ndescription: d\nmemory: user\ninitialPrompt: hello\nskills: {a: b}")
    index = find_agents(places)
    assert only(index).skills == ()
    assert index.notices == (
        "~/.claude/agents/helper.md: `skills` is no list of words.",
        "~/.claude/agents/helper.md: `initialPrompt` of an agent has no effect.",
        "~/.claude/agents/helper.md: `memory` of an agent has no effect.",
    )


def test_an_agent_of_a_repository_tightens_and_never_loosens(places: Places) -> None:
    put(
        places.cwd / THEIRS,
        head="""name: helper
description: d
tools: Read
model: anthropic/claude-opus-4-8
permissionMode: bypassPermissions
effort: max
maxTurns: 900
hooks: {PreToolUse: []}
mcpServers: [github]""",
    )
    index = find_agents(places)
    kind = only(index)
    assert (kind.tools, kind.model, kind.effort, kind.max_turns) == (("Read",), None, None, 100)
    assert [notice.partition(": ")[2] for notice in index.notices] == [
        "`hooks` of an agent has no effect.",
        "`mcpServers` of an agent has no effect.",
        "`permissionMode` of an agent cannot switch questions off.",
        "`model` of a repository's agent has no effect.",
        "`effort` of a repository's agent has no effect.",
    ]


def test_what_lies_in_the_users_folder_inside_of_the_project_is_trusted_as_little_as_the_project(
    places: Places,
) -> None:
    linked = put(places.cwd / "agents", head="name: helper\ndescription: d\nmodel: a/b")
    (places.home / MINE).mkdir(parents=True)
    (places.home / MINE / "helper.md").symlink_to(linked)
    index = find_agents(places)
    assert own(index) == {}
    assert "leads out of your folders of agents" in index.notices[0]


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("no head at all", 1, "its `name` is missing"),
        ("---\nname: helper\n", 1, "its frontmatter has no end"),
        ("---\nname: helper\ndescription: d\ntools: [Read\n---\nx", 4, "its frontmatter is no YAML"),
        ("---\nname: two words\ndescription: d\n---\nx", 1, "its `name` is missing"),
        ("---\nname: helper\n---\nx", 1, "its `description` is missing"),
        ("---\nname: helper\ndescription: d\n---\n", 1, "there is nothing behind its frontmatter"),
        ("---\nname: helper\ndescription: d\ntools: {Read: no}\n---\nx", 1, "`tools` is no list of words"),
        (
            "---\nname: helper\ndescription: d\ndisallowedTools: {a: b}\n---\nx",
            1,
            "`disallowedTools` is no list of words",
        ),
    ],
)
def test_a_broken_file_is_told_with_its_line_and_the_rest_works(places: Places, text: str, line: int, why: str) -> None:
    put(places.cwd / THEIRS, "good.md", "name: good\ndescription: d")
    (places.cwd / THEIRS / "bad.md").write_text(text)
    index = find_agents(places)
    assert set(own(index)) == {"good"}
    [notice] = index.notices
    assert notice.startswith(f"app/src/.claude/agents/bad.md:{line}: {why}")


def test_odd_values_are_told_and_keep_to_the_careful_side(places: Places) -> None:
    put(
        places.home / MINE,
        head="name: helper\ndescription: d\nmaxTurns: many\npermissionMode: whatever\nbackground: perhaps\n"
        "isolation: vm\ntools: Read, Bash(git *)\ndisallowedTools: Edit(src/**)",
    )
    index = find_agents(places)
    kind = only(index)
    assert (kind.max_turns, kind.mode, kind.is_background, kind.is_isolated) == (100, "default", False, False)
    assert (kind.tools, kind.disallowed) == (("Read",), ("Edit",))
    assert len(index.notices) == 6


def test_links_out_of_the_project_pipes_and_floods_cost_their_part(places: Places) -> None:
    secret = places.home / ".ssh/id_rsa"
    folder = places.cwd / THEIRS
    folder.mkdir(parents=True)
    (folder / "leak.md").symlink_to(secret)
    put(folder, "huge.md", body="x" * 70_000)
    for number in range(300):
        put(folder, f"n{number:03}.md", f"name: n{number:03}\ndescription: d")
    index = find_agents(places)
    assert 150 < len(own(index)) <= 200
    assert len(index.notices) <= MAX_NOTICES + 1
    assert not any("PRIVATE" in kind.prompt for kind in index.kinds.values())


def test_a_flood_of_descriptions_is_cut_in_the_tools_description() -> None:
    kinds = [AgentKind(f"k{number}", "d" * 2_000, "p") for number in range(200)]
    text = described(TaskTool.spec, kinds).description
    assert len(text) < ALL_LISTED_CHARS + 4_000
    assert all(f"- k{number}" in text for number in range(200))


# --- limits of tools ---


class _Nothing(Value):
    pass


def spec(name: str, *, read_only: bool = False, asks: bool = False) -> ToolSpec:
    return ToolSpec(name, "", _Nothing, read_only=read_only, asks="question" if asks else None)


TOOLS = (
    spec("read", read_only=True),
    spec("grep", read_only=True),
    spec("lsp"),
    spec("bash"),
    spec("write"),
    spec("ask_user", read_only=True, asks=True),
    spec("exit_plan_mode", read_only=True),
    spec("task"),
    spec("task_output", read_only=True),
    spec("mcp__github__get"),
    spec("mcp__other__get"),
)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (GENERAL, "read grep lsp bash write ask_user mcp__github__get mcp__other__get"),
        (EXPLORE, "read grep lsp"),
        (AgentKind("a", "", "", tools=("Read", "BASH", "Task", "Unknown")), "read bash"),
        (AgentKind("a", "", "", tools=()), ""),
        (AgentKind("a", "", "", tools=("mcp__github__*",)), "mcp__github__get"),
        (AgentKind("a", "", "", disallowed=("Bash", "mcp__*")), "read grep lsp write ask_user"),
        (AgentKind("a", "", "", tools=("Read", "Write"), disallowed=("Write",)), "read"),
    ],
)
def test_a_kind_has_the_tools_that_its_limits_leave(kind: AgentKind, expected: str) -> None:
    assert [one.name for one in TOOLS if kind.has(one)] == expected.split()


@pytest.mark.parametrize(
    ("session", "own", "is_shared", "expected"),
    [
        ("default", None, True, "default"),
        ("default", "plan", True, "plan"),
        ("yolo", "default", True, "default"),
        ("accept-edits", "deny", True, "deny"),
        ("default", "accept-edits", True, "default"),
        ("default", "accept-edits", False, "accept-edits"),
        ("default", "auto", False, "auto"),
        ("default", "yolo", False, "default"),
        ("plan", "accept-edits", False, "plan"),
        ("deny", "accept-edits", False, "deny"),
        ("deny", "plan", False, "plan"),
        ("plan", "deny", False, "plan"),
        ("auto", "accept-edits", True, "auto"),
    ],
)
def test_a_mode_of_a_file_tightens_and_loosens_only_where_it_is_the_users(
    session: Mode, own: Mode | None, is_shared: bool, expected: Mode
) -> None:
    assert mode_of(session, own, is_shared=is_shared) == expected


def test_a_kind_has_to_be_named() -> None:
    """Or a deny rule such as `Agent(general-purpose)` would not meet a call that leaves it out."""
    assert TaskInput.model_fields["subagent_type"].is_required()
