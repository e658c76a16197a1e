"""Texts for the guard: the corpus with what must be found in it, ordinary text, and text that is worst for it."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agentcore.guard.scanning import Finding

CORPUS = Path(__file__).parent / "core" / "guard_corpus.jsonl"
SIZE = 100_000
"""Characters, what the contract's bound is for."""

_MARK = re.compile(r"⟦(\w+):(.*?)⟧", re.DOTALL)
_JOINT = "¦"
"""Stands in the corpus inside of made-up keys, so that no scanner of a hosting service takes them for real ones."""


@dataclass(frozen=True, slots=True)
class Case:
    """One text of the corpus."""

    language: str
    is_held_out: bool
    """Not looked at while the rules were written."""
    text: str
    expected: tuple[Finding, ...]


def corpus() -> list[Case]:
    return [_case(json.loads(line)) for line in CORPUS.read_text().splitlines()]


def _case(line: Mapping[str, str]) -> Case:
    text, expected, at = "", list[Finding](), 0
    marked = line["text"].replace(_JOINT, "")
    for mark in _MARK.finditer(marked):
        text += marked[at : mark.start()]
        expected.append(Finding(len(text), len(text) + len(mark[2]), mark[1]))
        text += mark[2]
        at = mark.end()
    return Case(line["lang"], bool(line["held_out"]), text + marked[at:], tuple(expected))


def filled(piece: str, size: int = SIZE) -> str:
    return (piece * (size // len(piece) + 1))[:size]


def _log(size: int) -> str:
    lines = (
        f"2024-05-06 07:08:{at % 60:02d},{at * 37 % 1000:03d} INFO worker-{at % 7} request {at * 7919 % 10**9} from "
        f"10.1.{at % 255}.{at * 3 % 255}:{40000 + at % 20000} took {at * 13 % 9999} ms\n"
        for at in range(size // 80)
    )
    return filled("".join(lines), size)


def _table(size: int) -> str:
    lines = (
        f"{at},Jane Doe {at},jane{at}@example.com,+49 171 39{at % 100:02d}{at * 7 % 100:02d}{at * 3 % 100:02d}\n"
        for at in range(size // 50)
    )
    return filled("".join(lines), size)


def ordinary(size: int = SIZE) -> dict[str, str]:
    """What a session is full of; the table of people is more of a hit than any of it."""
    rooms = Path(__file__).parent.parent
    code = "".join(file.read_text() for file in sorted((rooms / "agentcore").rglob("*.py")))
    return {
        "program text": filled(code, size),
        "a specification": filled((rooms / "openapi.yaml").read_text(), size),
        "a log": _log(size),
        "prose with umlauts": filled("Grüße aus Köln, żółć, déjà vu: „Zitat“, 12 345 Zeilen. ", size),
        "a table of people": _table(size),
    }


def _numbered(shape: str, modulus: int, size: int) -> str:
    """A different number in each piece, so that no memory of earlier ones helps."""
    made, at, length = list[str](), 1, 0
    while length < size:
        at = at * 48271 % 2147483647  # a Lehmer generator: the same text everywhere
        made.append(shape.format(at % modulus))
        length += len(made[-1])
    return "".join(made)[:size]


def adversarial(size: int = SIZE) -> dict[str, str]:
    """One kind of beginning without its end, over and over; and candidates that cost a confirmation each."""
    pieces = (
        *("a", "@", "a@", "a.", "a@a.", "x@a.a.a.a.a.a.a.a.", "1", "1 ", "1-", "+1 ", " ", "\n", "\0", "(", "-"),
        *("sk-", "sk-" + "a" * 24 + " ", "eyJ-", "eyJaaaaaaaa.", "eyJaaaaaaaa.eyJaaaaaaaa.short ", "xoxb-", "AKIA"),
        *("-----BEGIN ", "-----BEGIN RSA PRIVATE KEY-----", "bearer ", "authorization: basic "),
        *("password", "password=", "password='", 'password="xx', "secret=", "api_key='a", "://", "://a:", "://a:b@"),
        *("DE00 ", "DE89 3704 0044 0532 0130 01 ", "de89370400440532013001 ", "4242 4242 4242 4241 "),
        *("4242424242424242 ", "tel ", "tel 1234567 ", "call 212-555-0187 ", "phone0", "phone 0171/3920"),
        *("(212) 555-0187 ", "01 02 03 04 05 ", "123-45-6789 ", "pesel 44051401458 ", "12345678Z "),
        *("1 85 05 78 006 084 91 ", "idnr 86095742719 ", "order 4242424242424242 "),
        *("token=", "token=a1b2", "token: " + "a1" * 20 + " ", "page_token=", "default login a password ", "curl "),
        *("machine a.b ", "machine a.b login c ", "machine a.b login c password dddd\n", "curl -u ", "curl -u a:"),
        *("curl -u a:bbbb ", "sshpass -p", "4242.4242.4242.4241 "),
        *("\x1b[", "\x1b[1;", "\x1b[0m", "1\x1b[0m", "\\u001b[", "\\e[1;1;"),
        *("\u200b", "1\u200b", "\uff14", "\u0664", "e\u0301", "\u0130"),
    )
    return {
        **{repr(piece[:30]): filled(piece, size) for piece in pieces},
        "numbers with a plus": _numbered("+1 {0:012d} ", 10**12, size),
        "numbers behind tel": _numbered("tel {0:09d} ", 10**9, size),
        "broken numbers behind phone": _numbered("phone 12 {0:03d} 345 12 ", 10**3, size),
        "numbers like IBANs": _numbered("DE{0:020d} ", 10**9, size),
        "numbers like ids": "pesel idnr nino ssn " + _numbered("{0:011d} ", 10**11, size),
    }
