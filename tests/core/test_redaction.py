"""What looks like a key goes, what is held as one goes, and everything else stays as it is."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcore.redaction import REDACTED, Redactor

KEYS = [
    "sk-ant-api03-AbCdEfGhIjKl1234567890",
    "sk-proj-AbCdEfGhIjKl1234567890",
    "sk_live_AbCdEfGhIjKl1234567890",
    "AIza" + "Sy0" * 11 + "ab",
    "gsk_AbCdEfGhIjKl1234567890",
    "xai-AbCdEfGhIjKl1234567890",
    "hf_" + "AbCdEfGhIj" * 3,
    "AKIAIOSFODNN7EXAMPLE",
    "ghp_" + "AbCdEfGhIj12" * 3,
    "github_pat_" + "AbCdEfGhIj12" * 3,
    "glpat-AbCdEfGhIj1234567890",
    "xoxb-123456789012-AbCdEfGh",
    "npm_" + "AbCdEfGhIj12" * 3,
    "pypi-" + "AbCdEfGhIj12" * 5,
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dGhlIHNpZ25hdHVyZQ",
    "-----BEGIN RSA PRIVATE KEY-----\nAbCd\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\ncut off",
]
INNOCENT = [
    "task-based-scheduling-of-everything-at-once",
    "sk-learn-like-classifier-pipelines",
    "risk-1234567890123456789012345",
    "https://example.org/a:b@c",
    "0123456789abcdef" * 4,
    "the bearer of good news",
]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("around", ["{}", "KEY={}\n", '"{}"', "\n{}", "say {}."])
def test_what_looks_like_a_key_is_taken_out(key: str, around: str) -> None:
    if key.endswith("cut off") and around != "{}":
        around = "\n{}"
    redactor, text = Redactor(), around.format(key)
    assert redactor.text(text) == around.format(REDACTED)
    line = json.dumps({"a": [text, {text: 1}]}).encode()
    assert json.loads(redactor.line(line)) == {"a": [around.format(REDACTED), {around.format(REDACTED): 1}]}


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Authorization: Bearer AbCdEfGh12345678", "Authorization: Bearer [redacted]"),
        ("postgres://me:secret@host/db", "postgres://[redacted]@host/db"),
    ],
)
def test_only_the_secret_of_a_phrase_is_taken_out(text: str, left: str) -> None:
    assert Redactor().text(text) == left


@pytest.mark.parametrize("text", INNOCENT)
def test_ordinary_words_stay(text: str) -> None:
    assert Redactor().text(text) == text


def test_what_is_held_as_a_secret_is_taken_out_unless_it_is_a_word() -> None:
    redactor = Redactor(["long enough", "long enough and longer", "short", ""])
    assert redactor.text("long enough and longer, short, long enough") == "[redacted], short, [redacted]"


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner)))
def test_a_line_without_a_secret_keeps_its_bytes(value: object) -> None:
    line = json.dumps({"value": value}, ensure_ascii=False).encode(errors="replace")
    assert Redactor(["not to be found"]).line(line) == line


@pytest.mark.parametrize("beginning", ["-sk-a", "eyJ-", "-----BEGIN ", "://a:", "bearer "])
def test_a_text_made_of_beginnings_is_read_to_its_end(beginning: str) -> None:
    """A million characters: with a cost of the length squared this takes an hour, and the suite's timeout says so."""
    text = beginning * (1_000_000 // len(beginning))
    assert Redactor().text(text) == text
