"""The words of a shell line: what of them is known before the shell runs, and where it is not."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

HOLE = "\0"
"""Stands for a text that only the shell will know. No command contains it."""
HOME = "\1"
"""Stands for the value of `$HOME`."""
GLOB = "\2"
"""In a shape: any text within one name of a path."""
NAMED = "\3"
"""In a shape: stands around the name of a variable."""
OPEN, COMMA, CLOSE = "\4", "\5", "\6"
"""In a shape: a brace, a comma and a brace outside of quotes."""
_BRACKET = "\7"

# A word outside quotes: no character that means something to the shell, unless escaped; no escaped newline.
_WORD = re.compile(r"(?!#)(?:\\.|[^\s\\'\"`$&|;<>()])+")
# Text in double quotes or a here-document: `$` only where it begins nothing. The former holds no bare `"`.
_DOLLAR = r"\$(?![({\[\w@*#?$!'\"-])"
_QUOTED = re.compile(rf'(?:\\[\s\S]|[^"\\`$]|{_DOLLAR})*')
_HERE = re.compile(rf"(?:\\[^\n]|[^\\`$]|{_DOLLAR})*")
# `${name}` and the forms that neither assign, nor compute, nor read another variable or a prompt.
_EXPANSION = re.compile(r"\$\{(?:#\w+|\w+(?:(?::?[-+?]|%%?|##?|//?|\^\^?|,,?).*)?)\}", re.DOTALL)
_PATTERN = re.compile(r"[^$`\\'\"]*")
_MARKS = {"*": GLOB, "?": GLOB, "[": _BRACKET, "{": OPEN, ",": COMMA, "}": CLOSE}
_PLAIN = str.maketrans({OPEN: "{", COMMA: ",", CLOSE: "}", GLOB: HOLE})
_WORKING_FOLDER = frozenset({"$(pwd)", "`pwd`", "$PWD", "${PWD}"})


class Unclear(Exception):
    """Not understood well enough to say what would run; the text says what it was."""


@dataclass(frozen=True, slots=True)
class Word:
    raw: str
    """As written."""
    loose: str
    """Without quotes and escapes; `HOLE` and `HOME` where a part is not known."""
    is_quoted: bool = False
    """Somewhere in it."""
    shape: str = ""
    """As `loose`, with what is known of the parts that are not; empty where nothing is."""

    @property
    def value(self) -> str | None:
        """What the program gets; None where that is not known."""
        return None if HOLE in self.loose or HOME in self.loose else self.loose

    @property
    def is_plain(self) -> bool:
        """Written as the program gets it, without quotes and escapes."""
        return self.raw == self.loose

    @property
    def starts_unknown(self) -> bool:
        return self.loose.startswith(HOLE)


def names(text: str) -> frozenset[str]:
    """A table of names, written as one text with blanks between them."""
    return frozenset(text.split())


def read_word(node: "Node") -> Word:
    """The word of a node. Raises: Unclear."""
    raw = text_of(node)
    shape = _with_classes(_shape(node))
    bare = _unquoted(node) if node.type in ("word", "concatenation") else ""
    makes_several = "{" in bare and ("," in bare or ".." in bare)  # `{a,b}`, `{1..3}`; `{}` is itself
    loose = HOLE if makes_several else plain(re.sub(f"{NAMED}(\\w+){NAMED}", _unknown, shape))
    return Word(raw, loose, is_quoted=any(mark in raw for mark in "'\"\\"), shape=shape)


def plain(shape: str) -> str:
    """A shape without its variables, as `loose` has it."""
    return shape.translate(_PLAIN)


def _unknown(variable: re.Match[str]) -> str:
    return HOME if variable[1] == "HOME" else HOLE


def _with_classes(shape: str) -> str:
    """`[a-z]` as one unknown character. Where the brackets are not clear, all between them may be anything."""
    shape = re.sub(f"{_BRACKET}[^{_BRACKET}\\]/]+\\](?!.*\\])", GLOB, shape, flags=re.DOTALL)
    return re.sub(f"{_BRACKET}(?:.*\\])?", HOLE, shape, flags=re.DOTALL)


def text_of(node: "Node") -> str:
    text = node.text
    assert text is not None  # the tree was parsed from bytes, not from a callback
    return text.decode()


def check_here_text(node: "Node") -> None:
    """Raises: Unclear where the text of an unquoted here-document holds more than its tree shows."""
    for piece in _between_children(node):
        if not _HERE.fullmatch(piece):
            raise Unclear("a here-document")


def check_expansion(node: "Node") -> None:
    """Raises: Unclear for an expansion that may assign, compute or look through another variable."""
    text = text_of(node)
    # Quotes inside mean one thing in a string and another outside of it.
    if not _EXPANSION.fullmatch(text) or "'" in text or "\\" in text:
        raise Unclear(f"the expansion {text_of(node)[:40]}")
    for child in node.children:
        if child.type in ("regex", "extglob_pattern") and not _PATTERN.fullmatch(text_of(child)):
            raise Unclear(f"the expansion {text_of(node)[:40]}")


def _shape(node: "Node") -> str:
    match node.type:
        case "word":
            return _bare(text_of(node))
        case "number":
            if node.child_count or not re.fullmatch(r"-?\w+", text_of(node)):
                raise Unclear("a number")
            return text_of(node)
        case "concatenation":
            return "".join(map(_shape, node.children))
        case "raw_string":
            return text_of(node)[1:-1]
        case "string":
            return _string(node)
        case "simple_expansion" | "expansion" | "command_substitution" if text_of(node) in _WORKING_FOLDER:
            return f"{NAMED}PWD{NAMED}"
        case "simple_expansion" | "expansion":
            name = re.fullmatch(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))", text_of(node))
            return HOLE if name is None else f"{NAMED}{name[1] or name[2]}{NAMED}"
        case "command_substitution" | "process_substitution" | "arithmetic_expansion" | "ansi_c_string":
            return HOLE
        case kind:
            raise Unclear(f"{kind.replace('_', ' ')}: {text_of(node)[:40]}")


def _bare(text: str) -> str:
    if not _WORD.fullmatch(text):
        raise Unclear(f"the word {text[:40]}")
    pieces = []
    is_escaped = False
    for char in text:
        if char == "\\" and not is_escaped:
            is_escaped = True
            continue
        pieces.append(char if is_escaped else _MARKS.get(char, char))
        is_escaped = False
    return "".join(pieces)


def _string(node: "Node") -> str:
    inner = [child for child in node.children if child.type not in ('"', "string_content")]
    pieces = _between(text_of(node)[1:-1], node.start_byte + 1, inner)
    for piece in pieces:
        if not _QUOTED.fullmatch(piece):
            raise Unclear("a string in double quotes")
    texts = [re.sub(r'\\([$`"\\])', r"\1", piece.replace("\\\n", "")) for piece in pieces]
    shape = texts[0]
    for child, text in zip(inner, texts[1:], strict=True):
        shape += _shape(child) + text
    return shape


def _between_children(node: "Node") -> list[str]:
    inner = [child for child in node.children if child.is_named and child.type != "heredoc_content"]
    return _between(text_of(node), node.start_byte, inner)


def _between(text: str, start: int, inner: list["Node"]) -> list[str]:
    """The pieces of a text around some of its nodes: one more than there are nodes."""
    data = text.encode()
    pieces = []
    at = 0
    for child in inner:
        pieces.append(data[at : child.start_byte - start].decode())
        at = child.end_byte - start
    return [*pieces, data[at:].decode()]


def _unquoted(node: "Node") -> str:
    if node.type == "word":
        return re.sub(r"\\.", "", text_of(node))
    return "".join(_unquoted(child) for child in node.children if child.type == "word")
