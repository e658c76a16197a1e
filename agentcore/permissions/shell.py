"""A shell line taken apart: each simple command in it, wherever it stands, and the files that are read and written.

The parser is tree-sitter's bash grammar. It is more lenient than bash and reads some lines otherwise, so nothing is
taken from it that is not checked: each kind of node is one that is known here, each word is made of characters that
mean nothing to the shell, and between them there is nothing but blanks. Whatever fails that is a `problem`, and a
person is asked.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from agentcore.permissions.words import HOLE, Unclear, Word, check_expansion, check_here_text, names, read_word, text_of

if TYPE_CHECKING:
    from tree_sitter import Language, Node

MAX_COMMAND_CHARS = 10_000  # the convention of settings files: longer commands always ask
MAX_DEPTH = 60
"""Of the tree; deeper ones are nobody's honest command."""


@dataclass(frozen=True, slots=True)
class Assignment:
    name: str
    raw: str
    value: Word | None = None
    """None where it is not known."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One simple command."""

    words: tuple[Word, ...]
    assignments: tuple[Assignment, ...] = ()
    """In front of it; all there is where `words` is empty."""
    is_special: bool = False
    """No program: a test, a computation, a function. No pattern approves it."""

    @property
    def name(self) -> str | None:
        """The program as it is written, where that is known."""
        return self.words[0].value if self.words else None


@dataclass(frozen=True, slots=True)
class Script:
    """What a shell line would do, as far as it shows."""

    text: str
    segments: tuple[Segment, ...] = ()
    writes: tuple[Word, ...] = ()
    """Files behind `>` and its kin."""
    reads: tuple[Word, ...] = ()
    """Files behind `<`."""
    variables: tuple[Assignment, ...] = ()
    """What the line's own variables are given: by themselves, and by loops."""
    problem: str | None = None
    """Why it is not known what would run; then the rest is only a part of it."""
    is_single: bool = False
    """One simple command, without operators, redirections and substitutions."""


@lru_cache(maxsize=256)  # the gate looks at a call up to three times
def read_script(text: str) -> Script:
    """Take a command line apart. Never raises."""
    if len(text) > MAX_COMMAND_CHARS:
        return Script(text[:200], problem=f"it is longer than {MAX_COMMAND_CHARS} characters")
    if (odd := _ODD.search(text)) is not None:
        return Script(text, problem=f"it contains the character U+{ord(odd[0]):04X}")
    try:
        data = text.encode()
    except UnicodeEncodeError:
        return Script(text, problem="it is no valid Unicode")
    root = _parsed(data)
    walk = _Walk(data)
    try:
        if root.has_error:
            raise Unclear("its syntax")
        walk.visit_program(root)
    except Unclear as error:
        return Script(text, tuple(_leniently(root)), problem=f"{error} cannot be read with certainty")
    return walk.script(text)


# White space that is none to bash, or to the parser, and control characters.
_ODD = re.compile(r"[^\S \t\n]|[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060\ufeff]")
_GAP = re.compile(r"(?:[ \t\n]|(?<=[ \t])\\\n)*")
_GAP_IN_LINE = re.compile(r"(?:[ \t]|(?<=[ \t])\\\n)*")

# Kinds of nodes that only hold others together.
_STRUCTURE = names(
    """program list pipeline subshell compound_statement redirected_statement negated_command if_statement
    elif_clause else_clause while_statement for_statement do_group case_statement case_item command_substitution
    process_substitution string heredoc_body concatenation command_name array herestring_redirect simple_expansion
    unary_expression binary_expression parenthesized_expression"""
)
_LEAVES = names(
    """word number raw_string ansi_c_string variable_name special_variable_name string_content heredoc_start
    heredoc_content heredoc_body heredoc_end file_descriptor comment extglob_pattern regex test_operator"""
)
_KNOWN = _STRUCTURE | _LEAVES
_WORDS = names(
    """word number concatenation raw_string string ansi_c_string simple_expansion expansion
    command_substitution process_substitution arithmetic_expansion"""
)
_TOKENS = names(
    """; & && || | |& ( ) { } $( ` <( >( $ " ! if then elif else fi while until for select in do done case esac
    ;; ;& ;;& = == != =~ += [ ] [[ ]] function << <<- <<< > >> &> &>> >| < <& >& <&- >&- export declare typeset readonly
    local unset unsetenv"""
) | {"\n", ""}
_NUMBERS = re.compile(r"\$\(\([\d\s+*/%()-]*\)\)")
_RESERVED = names("if then else elif fi case esac for while until do done function select in { } ! [[ ]] coproc")
_DESCRIPTOR = re.compile(r"\d+-?")
NO_FILE = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin", "/dev/tty"})
_DELIMITER = re.compile(r"(['\"]?)(\w+)\1")


@dataclass(slots=True)
class _Walk:
    data: bytes
    segments: list[Segment] = field(default_factory=list)
    writes: list[Word] = field(default_factory=list)
    reads: list[Word] = field(default_factory=list)
    variables: list[Assignment] = field(default_factory=list)
    is_single: bool = False
    depth: int = 0

    def script(self, text: str) -> Script:
        parts = (tuple(self.segments), tuple(self.writes), tuple(self.reads), tuple(self.variables))
        return Script(text, *parts, is_single=self.is_single)

    def visit_program(self, root: "Node") -> None:
        self._check_gaps(root, 0, len(self.data))
        children = [child for child in root.children if child.is_named and child.type != "comment"]
        is_alone = len(root.children) == 1 and children[:1] == root.children and children[0].type == "command"
        for child in root.children:
            self._visit(child)
        self.is_single = is_alone and len(self.segments) == 1 and not self.writes and not self.reads

    def _visit(self, node: "Node") -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Unclear("its depth")
        self._check(node)
        match node.type:
            case "command":
                self._command(node)
            case "declaration_command":
                self._declaration(node)
            case "variable_assignment":
                self.segments.append(Segment((), (_assignment(node),)))
                self.variables.append(_assignment(node))
            case "for_statement":
                self.variables += _given_by_loop(node)
            case "file_redirect":
                self._redirect(node)
            case "heredoc_redirect":
                self._here_document(node)
            case "expansion":
                check_expansion(node)
            case "arithmetic_expansion" if _NUMBERS.fullmatch(text_of(node)):
                self.depth -= 1
                return
            case "test_command" | "function_definition" | "unset_command":
                self._special(node)
            case "compound_statement" if text_of(node).startswith("(("):
                raise Unclear("a computation")
            case kind if kind in _KNOWN:
                pass
            case kind if not node.is_named and text_of(node).strip(" \t") in _TOKENS:
                pass
            case kind:
                raise Unclear(kind.replace("_", " ") if node.is_named else f"the token {text_of(node)[:10]!r}")
        for child in node.children:
            if child.type == "variable_assignment" and (node.type == "command" or _is_export(node)):
                self._check(child)
                self._visit_all(child)
            elif node.type != "expansion" or child.is_named:
                self._visit(child)
        self.depth -= 1

    def _visit_all(self, node: "Node") -> None:
        for child in node.children:
            self._visit(child)

    def _check(self, node: "Node") -> None:
        if node.is_missing or node.is_error:
            raise Unclear("its syntax")
        if node.type == "comment":
            before = self.data[: node.start_byte]
            if before and (before[-1:] not in b" \t\n;" or before[-2:-1] == b"\\"):
                raise Unclear("a comment")
        if node.type in ("word", "concatenation", "string", "number", "raw_string"):
            read_word(node)
        if node.type == "extglob_pattern" and not re.fullmatch(r"[\w*?.\[\]!/-]+", text_of(node)):
            raise Unclear("a pattern")
        if node.type == "command_substitution" and text_of(node).startswith("`") and "\\" in text_of(node):
            raise Unclear("a backslash in backquotes")
        if node.child_count and node.type not in ("string", "heredoc_body", "expansion", "file_redirect"):
            self._check_gaps(node, node.start_byte, node.end_byte)

    def _check_gaps(self, node: "Node", start: int, end: int) -> None:
        """Raises: Unclear unless there are only blanks between the parts of a node, and none in a word."""
        gap = _GAP_IN_LINE if node.type in ("command", "declaration_command") else _GAP
        at = start
        for child in node.children:
            if child.start_byte > at:
                self._check_gap(gap, at, child.start_byte, node)
            at = max(at, child.end_byte)
        if end > at:
            self._check_gap(gap, at, end, node)

    def _check_gap(self, gap: re.Pattern[str], start: int, end: int, node: "Node") -> None:
        before = self.data[max(0, start - 1) : start].decode(errors="replace")
        if node.type == "concatenation" or not gap.fullmatch(before + self.data[start:end].decode(), len(before)):
            raise Unclear(f"what stands between the parts of a {node.type.replace('_', ' ')}")

    def _command(self, node: "Node") -> None:
        words: list[Word] = []
        assignments: list[Assignment] = []
        for child in node.children:
            if child.type == "command_name":
                words.append(read_word(child.children[0]))
            elif child.type == "variable_assignment":
                assignments.append(_assignment(child))
            elif child.type in _WORDS:
                words.append(read_word(child))
            elif child.type not in ("file_redirect", "herestring_redirect"):
                raise Unclear(f"{text_of(child)[:40]} in a command")
        if words and words[0].raw in _RESERVED:
            raise Unclear(f"the word {words[0].raw}")
        self.segments.append(Segment(tuple(words), tuple(assignments)))

    def _declaration(self, node: "Node") -> None:
        words = [Word(text_of(child), text_of(child)) for child in node.children]
        self.segments.append(Segment(tuple(words), is_special=not _is_export(node)))

    def _special(self, node: "Node") -> None:
        if node.type != "test_command" or not _is_plain_test(node):
            self.segments.append(Segment((Word(text_of(node), HOLE),), is_special=True))

    def _redirect(self, node: "Node") -> None:
        parts = [child for child in node.children if child.type != "file_descriptor"]
        operator = text_of(parts[0]).strip(" \t")
        targets = parts[1:]
        if operator in ("<&-", ">&-") and not targets:
            return
        if len(targets) != 1:
            raise Unclear("a word behind a redirection")
        self._check_gap(_GAP_IN_LINE, parts[0].end_byte, targets[0].start_byte, node)
        word = read_word(targets[0])
        if operator in ("<&", ">&") and _DESCRIPTOR.fullmatch(word.raw):
            return
        if word.value is not None and word.value.startswith(("/dev/tcp/", "/dev/udp/")):
            raise Unclear("a connection to the network")
        if word.value in NO_FILE:
            return
        (self.reads if operator in ("<", "<&") else self.writes).append(word)

    def _here_document(self, node: "Node") -> None:
        start = next(child for child in node.children if child.type == "heredoc_start")
        end = next((child for child in node.children if child.type == "heredoc_end"), None)
        body = next((child for child in node.children if child.type == "heredoc_body"), None)
        delimiter = _DELIMITER.fullmatch(text_of(start))
        if delimiter is None or end is None or text_of(end).strip("\t") != delimiter[2]:
            raise Unclear("the end of a here-document")
        before = self.data[self.data.rfind(b"\n", 0, end.start_byte) + 1 : end.start_byte]
        if before.strip(b"\t") or (before and text_of(node.children[0]).strip() != "<<-"):
            raise Unclear("the end of a here-document")
        if any(child.is_named and child.type in _WORDS for child in node.children):
            raise Unclear("a word behind a here-document")
        rest = self.data[end.end_byte :]
        text = "" if body is None else text_of(body)
        if rest[:1] not in (b"", b"\n") or delimiter[2] in [line.strip("\t") for line in text.split("\n")]:
            raise Unclear("the end of a here-document")
        if body is not None and not delimiter[1]:
            check_here_text(body)


def _is_export(node: "Node") -> bool:
    return node.type == "declaration_command" and text_of(node.children[0]) == "export"


def _assignment(node: "Node") -> Assignment:
    name, *others = node.children
    if name.type != "variable_name":
        raise Unclear("an assignment to an element")
    if not others or text_of(others[0]) != "=" or (len(others) > 1 and others[1].type not in _WORDS):
        return Assignment(text_of(name), text_of(node))
    value = read_word(others[1]) if len(others) > 1 else Word("", "")
    return Assignment(text_of(name), text_of(node), value)


def _given_by_loop(node: "Node") -> Iterator[Assignment]:
    name = next(text_of(child) for child in node.children if child.type == "variable_name")
    values = [read_word(child) for child in node.children if child.type in _WORDS]
    if not values:
        yield Assignment(name, name)  # what the script was given
    for value in values:
        yield Assignment(name, value.raw, value)


def _leniently(node: "Node") -> Iterator[Segment]:
    """What simple commands there are in a tree that is not understood: a deny rule may name one of them."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        waiting.extend(node.children)
        if node.type == "command":
            texts = [text_of(child) for child in node.children if child.is_named]
            yield Segment(tuple(Word(text, re.sub(r"""['"\\\\]""", "", text)) for text in texts))


_UNARY_TESTS = names("-b -c -d -e -f -h -k -L -n -p -r -s -S -w -x -z")
_BINARY_TESTS = names("= == != -nt -ot -ef ! && ||")


def _is_plain_test(node: "Node") -> bool:
    """Whether a `[ … ]` or `[[ … ]]` only looks: comparing numbers computes, and computing can run commands."""
    return all(
        text_of(leaf) in _UNARY_TESTS | _BINARY_TESTS
        for leaf in _leaves(node)
        if leaf.type == "test_operator" or (not leaf.is_named and text_of(leaf).strip() not in _BRACKETS)
    )


_BRACKETS = frozenset({"[", "]", "[[", "]]", '"', "$", "(", ")", "$(", "${", "}"})


def _leaves(node: "Node") -> Sequence["Node"]:
    return [node] if not node.child_count else [leaf for child in node.children for leaf in _leaves(child)]


def _parsed(data: bytes) -> "Node":
    from tree_sitter import Parser

    return Parser(_language()).parse(data).root_node  # a parser of its own: calls are judged in several threads


@lru_cache(maxsize=1)
def _language() -> "Language":
    import tree_sitter_bash
    from tree_sitter import Language

    return Language(tree_sitter_bash.language())
