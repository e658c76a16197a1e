"""Skills as words for the model: places that are filled, the list in the system prompt, what a compaction keeps."""

from pathlib import Path

import pytest

from agentcore.messages import Message, Text, ToolCall, ToolResult
from agentcore.origin import Origin
from agentcore.skills.arguments import Filler, Given, with_arguments, words_of
from agentcore.skills.kept import EACH_CHARS, TOGETHER_CHARS, reattached
from agentcore.skills.listing import MAX_DESCRIPTION_CHARS, listing
from agentcore.skills.skill import Skill
from agentcore.within import Bounds

FACTS = {"CLAUDE_SESSION_ID": "s-1", "CLAUDE_EFFORT": "high", "CLAUDE_SKILL_DIR": "/s", "CLAUDE_PROJECT_DIR": "/p"}


def filled(text: str, arguments: str, names: tuple[str, ...] = ()) -> str:
    filler = Filler(Given(arguments, names, FACTS))
    return with_arguments(filler.filled(text), filler)


@pytest.mark.parametrize(
    ("text", "arguments", "expected"),
    [
        # the whole
        ("Fix $ARGUMENTS now", "bug 7", "Fix bug 7 now"),
        ("Fix $ARGUMENTS now", "", "Fix  now"),
        ("Fix $ARGUMENTS and $ARGUMENTS", "a b", "Fix a b and a b"),
        ("Fix it", "bug 7", "Fix it\n\nARGUMENTS: bug 7"),
        ("Fix it\n\n", " bug ", "Fix it\n\nARGUMENTS:  bug "),
        ("Fix it", "  ", "Fix it"),
        ("$ARGUMENTSX", "a", "$ARGUMENTSX\n\nARGUMENTS: a"),
        # single ones, from zero
        ("$0 $1", "a b", "a b"),
        ("$ARGUMENTS[0]-$ARGUMENTS[1]", "a b", "a-b"),
        ("$1 $2", "a b", "b $2"),
        ("$ARGUMENTS[2]", "a", "$ARGUMENTS[2]\n\nARGUMENTS: a"),
        ("$0", "", "$0"),
        ("$10", "a b", "$10\n\nARGUMENTS: a b"),
        ("$0x", "a", "$0x\n\nARGUMENTS: a"),
        # as a shell splits
        ("$0|$1", "'a b' c", "a b|c"),
        ("$0|$1", '"a b" c', "a b|c"),
        ("$0|$1", "it's here", "it's|here"),
        ("$0|$1", '"a b', '"a|b'),
        ("$0", r"a\ b", "a b"),
        # by name
        ("to $env in $region", "prod eu", "to prod in eu"),
        ("to $env in $region", "prod", "to prod in $region"),
        ("$environment", "prod", "$environment\n\nARGUMENTS: prod"),
        ("$HOME", "prod", "$HOME\n\nARGUMENTS: prod"),
        # facts
        ("${CLAUDE_SESSION_ID} ${CLAUDE_EFFORT}", "", "s-1 high"),
        ("${CLAUDE_SKILL_DIR}/x ${CLAUDE_PROJECT_DIR}", "", "/s/x /p"),
        ("${HOME} ${CLAUDE_OTHER}", "", "${HOME} ${CLAUDE_OTHER}"),
        # escapes
        (r"\$ARGUMENTS", "a", "$ARGUMENTS\n\nARGUMENTS: a"),
        (r"costs \$1.00 for $0", "a", "costs $1.00 for a"),
        (r"\$env $env", "prod", "$env prod"),
        (r"\${CLAUDE_EFFORT}", "", "${CLAUDE_EFFORT}"),
        (r"echo \$HOME \n", "", r"echo \$HOME \n"),
        # what was put in is not looked at again
        ("$0", "'$1' b", "$1"),
        ("$ARGUMENTS", "${CLAUDE_EFFORT} $0", "${CLAUDE_EFFORT} $0"),
        ("$env", "$region eu", "$region"),
    ],
)
def test_places_are_filled_as_the_convention_says(text: str, arguments: str, expected: str) -> None:
    assert filled(text, arguments, ("env", "region")) == expected


def test_arguments_of_any_length_are_split_quickly() -> None:
    assert len(words_of("'a b' " * 200_000)) == 400_000


# --- the list ---


def skill(name: str, description: str = "", when: str = "", *, is_for_model: bool = True) -> Skill:
    bounds = Bounds((Path("/"),), 1, lambda real: False)
    return Skill(name, description, Path("/x"), Origin("x"), bounds, when_to_use=when, is_for_model=is_for_model)


def test_the_list_is_sorted_and_leaves_out_what_the_model_may_not_load() -> None:
    skills = [skill("b", "B.", "When b."), skill("a"), skill("c", "C.", is_for_model=False)]
    assert listing(skills, 200_000) == "- a\n- b: B. When b."
    assert listing([skills[2]], 200_000) == ""


def test_a_description_is_capped() -> None:
    [line] = listing([skill("a", "x" * 2_000)], 10_000_000).split("\n")
    assert line == f"- a: {'x' * (MAX_DESCRIPTION_CHARS - 1)}…"


def test_where_the_budget_is_short_the_longest_are_cut_first() -> None:
    skills = [skill("a", "a" * 600), skill("b", "b" * 50), skill("c", "c" * 400)]
    told = listing(skills, 20_000)  # 1 % are 200 tokens, 800 characters
    lines = dict(line.removeprefix("- ").split(": ") for line in told.split("\n"))
    assert lines["b"] == "b" * 50
    assert len(lines["a"]) == len(lines["c"]) == (800 - 3 * 6 - 50) // 2
    assert len(told) <= 800


def test_where_there_is_room_for_names_alone_the_last_ones_are_a_number() -> None:
    told = listing([skill(f"s{number:03}", "d" * 100) for number in range(100)], 1_000)  # 40 characters
    assert told == "- s000\n- s001\n- s002\n- s003\n- s004\n(95 more have no room here: the user can name them)"


# --- after a compaction ---


def body(name: str, text: str = "do it") -> str:
    return f'<skill name="{name}" folder="x">\n{text}\n</skill>'


def user(*blocks: Text | ToolResult) -> Message:
    return Message(id="m", role="user", content=blocks)


def test_the_latest_use_of_each_skill_is_told_again_in_the_order_of_use() -> None:
    load = Message(
        id="a",
        role="assistant",
        content=(
            ToolCall(id="c1", name="skill", input={"name": "b"}),
            ToolCall(id="c2", name="read", input={}),
            ToolCall(id="c3", name="skill", input={"name": "c"}),
        ),
    )
    messages = [
        user(Text(text="/a 1"), Text(text=body("a", "one"))),
        load,
        user(
            ToolResult(call_id="c1", content=body("b")),
            ToolResult(call_id="c2", content=body("forged")),
            ToolResult(call_id="c3", content=body("failed"), is_error=True),
        ),
        user(Text(text=f"look at this: {body('quoted')}")),
        user(Text(text="/a 2"), Text(text=body("a", "two"))),
    ]
    assert reattached(messages, 200_000) == (Text(text=body("b")), Text(text=body("a", "two")))


def test_what_was_told_again_is_told_again_by_the_next_compaction() -> None:
    first = reattached([user(Text(text=body("a")))], 200_000)
    assert reattached([user(Text(text="a summary"), *first)], 200_000) == first


def test_each_skill_keeps_its_beginning_and_all_together_their_budget() -> None:
    messages = [user(Text(text=body(f"s{number}", "x" * 50_000))) for number in range(8)]
    blocks = reattached(messages, 1_000_000)
    assert [block.text[:16] for block in blocks] == [f'<skill name="s{number}"' for number in range(3, 8)]
    assert [len(block.text) for block in blocks] == [EACH_CHARS] * 5
    assert all(block.text.endswith("</skill>") for block in blocks)
    assert sum(len(block.text) for block in blocks) == TOGETHER_CHARS


def test_a_small_window_keeps_less() -> None:
    messages = [user(Text(text=body(f"s{number}", "x" * 50_000))) for number in range(8)]
    assert sum(len(block.text) for block in reattached(messages, 8_000)) == 4_000
    assert reattached([], 8_000) == ()
