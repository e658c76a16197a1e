"""Patterns: what they mean, held against a well-known reader of them, and that no pattern takes long."""

import random
import re

import pytest
from pathspec import GitIgnoreSpec

from agentcore.permissions.gitignore import MAX_PARTS, path_pattern
from agentcore.permissions.globs import STAR, can_meet, fits

SEED, TRIES = 7, 3000


def tokens(pattern: str) -> tuple[str, ...]:
    return tuple(STAR if char == "*" else char for char in pattern)


def test_stars_mean_what_they_mean_to_a_backtracking_engine() -> None:
    chance = random.Random(SEED)
    for _ in range(TRIES):
        pattern = "".join(chance.choice("ab*") for _ in range(chance.randint(0, 6)))
        text = "".join(chance.choice("ab") for _ in range(chance.randint(0, 7)))
        expected = re.fullmatch(pattern.replace("*", ".*"), text) is not None
        assert (fits(tokens(pattern), text), can_meet(tokens(pattern), text, "?")) == (expected, expected), (
            pattern,
            text,
        )


def test_a_hole_may_be_filled_with_anything() -> None:
    chance = random.Random(SEED)
    fillings = ["", "a", "b", "ab", "ba", "aab", "abab"]
    for _ in range(TRIES):
        pattern = "".join(chance.choice("ab*") for _ in range(chance.randint(0, 5)))
        text = "".join(chance.choice("ab?") for _ in range(chance.randint(0, 3)))
        if text.count("?") > 1:
            continue
        some = any(fits(tokens(pattern), text.replace("?", one)) for one in fillings)
        assert can_meet(tokens(pattern), text, "?") >= some, (pattern, text)
    for pattern, text, meets in (("rm *", "r?", True), ("ab", "?c", False), ("a", "??a??", True), ("a*b", "?", True)):
        assert can_meet(tokens(pattern), text, "?") is meets, (pattern, text)


PIECES = ["a", "b", "ab", "*", "?", "**", "/", "/", "[ab]", "[a-b]", "\\*", "."]
NAMES = ["a", "b", "ab", "*", "aa", ".a", "x"]


def test_patterns_of_paths_are_those_of_gitignore() -> None:
    chance, compared = random.Random(SEED), 0
    for _ in range(4 * TRIES):
        pattern = "".join(chance.choice(PIECES) for _ in range(chance.randint(1, 6)))
        if "//" in pattern or "***" in pattern:
            continue  # an empty name, and what nobody means
        path, is_folder = "/".join(chance.choices(NAMES, k=chance.randint(1, 4))), chance.random() < 0.5
        expected = GitIgnoreSpec.from_lines([pattern]).match_file(f"{path}/" if is_folder else path)
        assert path_pattern(pattern).matches(path, is_folder=is_folder) is expected, (pattern, path, is_folder)
        compared += 1
    assert compared > TRIES


CLASSES = [
    ("[!a]b", "xb", True),
    ("[^a]b", "ab", False),
    ("[[:digit:]x]", "7", True),
    ("[[:upper:]]", "a", False),
    ("[]a]", "]", True),
    ("[\\]]", "]", True),
    ("[a-]", "-", True),
    ("a\\ ", "a ", True),
    ("a ", "a", True),
    ("a\\  ", "a ", True),
    ("a\\  ", "a", False),
    ("b[!a]", "b/x", False),
]


@pytest.mark.parametrize(("pattern", "name", "is_meant"), CLASSES)
def test_classes_of_characters(pattern: str, name: str, is_meant: bool) -> None:
    assert path_pattern(pattern).matches(name, is_folder=False) is is_meant


@pytest.mark.parametrize("pattern", ["a[", "[a", "a\\", "[z-a]", "[[:none:]]"])
def test_a_pattern_that_is_none_says_so(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"\w+ \w+"):
        path_pattern(pattern)


def test_no_pattern_takes_longer_than_its_length_explains() -> None:
    """Each of these is hours of work for an engine that tries again."""
    assert not fits(tokens("*a" * 400 + "b"), "a" * 9_900)
    assert not can_meet(tokens("a*" * 9_000 + "c"), "b" * 9_000 + "?b", "?")
    assert not fits(tokens("*" * 5_000 + "Z"), "git status")
    assert not path_pattern("*a" * 9_000 + "b").matches("a" * 255, is_folder=False)
    assert not path_pattern("**/" * 40 + "b").matches("a/" * 60 + "a", is_folder=False)
    assert not path_pattern("**/" + "*a*a*/" * 3_000 + "b").matches("a/" * 120 + "a", is_folder=False)
    assert not path_pattern("a" + " " * 19_000 + "b").matches("a", is_folder=False)
    with pytest.raises(ValueError, match="names"):
        path_pattern("a").matches("/".join("a" * (MAX_PARTS + 1)), is_folder=False)
