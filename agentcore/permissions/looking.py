"""The files of one shell line: which it reads and changes, as far as its words say, and which it may.

A place is certain, or possible: what a pattern may name, what lies in a folder that is read. Of a word that may be any
text nothing can be said, so that it may be any file.
"""

import re
from dataclasses import dataclass, field

from agentcore.permissions.disk import TooMuch, forbidden_below, forbidden_in_index
from agentcore.permissions.git_files import git_files, paths_in
from agentcore.permissions.inner import ANYTHING, Words, inner_commands, inner_scripts, is_whole
from agentcore.permissions.openers import Files, files_of
from agentcore.permissions.paths import Anchors, Place
from agentcore.permissions.programs import base_name
from agentcore.permissions.protected import is_protected_as_given, is_protected_place
from agentcore.permissions.repositories import repository_at
from agentcore.permissions.resolving import Resolver
from agentcore.permissions.rules import PATH_TOOLS, Rule
from agentcore.permissions.shell import NO_FILE, Script
from agentcore.permissions.words import GLOB, HOLE, Word
from agentcore.permissions.workspace import OutsideRoots, Workspace

_WITH_A_LETTER = re.compile(r"[^\W\d_]")
"""What has none is a number or a separator, unless a file goes by that name: `head -n 5`, `cut -d , -f 1`."""
_FILLED_IN = "{}"
"""By `find` and `xargs`."""
_ALL = Files(walks=True)


@dataclass(slots=True)
class Found:
    """Places of one kind."""

    certain: list[Place] = field(default_factory=list)
    possible: list[Place] = field(default_factory=list)
    is_open: bool = False
    """There are some that are not known."""


class Look:
    """Finds the files of one line, and keeps what speaks against it."""

    def __init__(self, script: Script, workspace: Workspace) -> None:
        self.reads = Found()
        self.changes = Found()
        self.writes: list[Place] = []
        """Behind `>`."""
        self.closed: str | None = None
        """Why a place is closed to every tool."""
        self.unknown: str | None = None
        """A redirection whose file only the shell will know."""
        self.unclear: str | None = None
        """Why it may reach a place that is closed or protected."""
        self.setting: str | None = None
        """What it sets in git's configuration, which may name a program."""
        self.protected: list[str] = []
        self._workspace = workspace
        self._anchors = Anchors(workspace.cwd, workspace.home)
        self._script = script
        self._resolver = Resolver(script, workspace)
        self.folders = self._resolver.folders
        self._roots = tuple(self._resolver.roots_of_find())

    def look(self) -> None:
        for word in self._script.writes:
            self.writes += self._redirected(word, is_write=True)
        for word in self._script.reads:
            self.reads.certain += self._redirected(word, is_write=False)
        for script in inner_scripts(self._script):
            for word in script.writes:
                self._take(word, self.changes)
            for word in script.reads:
                self._take(word, self.reads)
        commands = inner_commands(self._script)
        for words in commands:
            if words:
                self._command(words)
        if ANYTHING in commands:
            self.reads.is_open = self.changes.is_open = True
        if self._resolver.is_full or not is_whole(self._script):
            self.reads.is_open = self.changes.is_open = True
            self.unclear = self.unclear or "it names too many files to see which ones they are"

    # --- commands ---

    def _command(self, words: Words) -> None:
        if base_name(words[0]) == "git":
            self._git(words)
            self._close(words, is_reader=False)
            return
        files = files_of(words)
        for word in files.reads:
            self._take(word, self.reads, is_exact=files.is_exact, walker=files if files.walks else None)
        for word in files.changes:
            walker = files if files.changes_below else None
            self._take(word, self.changes, is_exact=files.is_exact, walker=walker)
        for word in files.touches:
            self._touch(word, may_change=files.may_change)
        self._close(words, is_reader=bool(files.reads) and not files.changes)

    def _git(self, words: Words) -> None:
        files = git_files(words)
        is_named = False
        for word in files.reads:
            for text in self._resolver.texts(word):
                for path in paths_in(text):
                    is_named = self._take_text(path, word, self.reads, is_exact=False, walker=_ALL) or is_named
        for word in files.changes:
            self._take(word, self.changes, is_exact=False)
        if files.shows_all and not is_named:
            self._show_tracked()
        self.setting = self.setting or files.setting

    def _show_tracked(self) -> None:
        rules = self._rules(self.reads)
        for folder in self.folders if rules else ():
            repository = None if folder is None else repository_at(folder)
            if repository is not None:
                found = forbidden_in_index(repository, rules, self._anchors)
                self.reads.is_open = self.reads.is_open or found is None
                self.reads.possible += found or ()

    def _rules(self, into: Found) -> tuple[Rule, ...]:
        """What rules forbid to read, or ask about; where something is changed, what they forbid to change as well."""
        tools = frozenset({"read"}) if into is self.reads else PATH_TOOLS
        return tuple(
            rule
            for rule in (*self._workspace.deny, *self._workspace.ask)
            if rule.tool in tools and rule.spec is not None
        )

    # --- words ---

    def _take(self, word: Word, into: Found, *, is_exact: bool = True, walker: Files | None = None) -> None:
        """`is_exact`: the word is a file and nothing else. `walker`: what lies in it counts if it is a folder."""
        for text in self._resolver.texts(word):
            self._take_text(text, word, into, is_exact=is_exact, walker=walker)

    def _take_text(self, text: str, word: Word, into: Found, *, is_exact: bool, walker: Files | None) -> bool:
        """Whether it names something that is there."""
        if text in NO_FILE or not text or (text.startswith("-") and HOLE not in text):
            return False
        if _FILLED_IN in text:
            self._fill_in(into)
            return False
        if HOLE in text or (None in self.folders and not text.startswith("/")):
            into.is_open = True
            if is_exact and word.raw != HOLE:  # what `xargs` adds was said by what it is fed with
                self._may_be_anything(word, into)
            return False
        is_pattern = GLOB in text
        places = self._resolver.matching(text) if is_pattern else self._resolver.places(text)
        target = into.possible if is_pattern else into.certain
        target += [one for one in places if one.is_there or _WITH_A_LETTER.search(text)]
        for place in places:
            self._check(place, into)
            if walker is not None and place.is_folder:
                self._walk(place, into, walker)
        return any(one.is_there for one in places)

    def _fill_in(self, into: Found) -> None:
        """What `find` puts in lies below its folders; what `xargs` does may be anything."""
        into.is_open = into.is_open or into is self.changes or not self._roots
        for root in self._roots:
            certain = len(into.certain)
            self._take_text(root, Word(HOLE, HOLE), into, is_exact=False, walker=_ALL)
            into.possible += into.certain[certain:]
            del into.certain[certain:]

    def _touch(self, word: Word, *, may_change: bool) -> None:
        """A word of which it is not known whether it is a file that is read, or changed."""
        for text in self._resolver.texts(word):
            if text.startswith("-") or HOLE in text or text in NO_FILE:
                continue
            for place in self._resolver.matching(text) if GLOB in text else self._resolver.parts(text):
                if place.is_there:
                    self.reads.possible.append(place)
                if may_change and self._is_protected(place):
                    self.protected.append(place.given)

    def _redirected(self, word: Word, *, is_write: bool) -> list[Place]:
        texts = self._resolver.texts(word)
        text = texts[0]
        if len(texts) > 1 or HOLE in text or GLOB in text or (None in self.folders and not text.startswith("/")):
            self._take(word, self.changes if is_write else self.reads)
            self.unknown = word.raw if is_write else self.unknown
            return []
        found = []
        for folder in self.folders:
            place = self._resolver.place(folder, text)
            if place is None:
                self.closed = self.closed or f"{word.raw[:200]} is no usable path"
                continue
            try:
                self._workspace.resolve(text if folder is None else str(folder / text))
            except OutsideRoots as error:
                if is_write or self._workspace.is_unreadable(place.real):
                    self.closed = self.closed or str(error)
            if is_write and self._is_protected(place):
                self.protected.append(place.given)
            found.append(place)
        return list(dict.fromkeys(found))

    # --- what speaks against it ---

    def _check(self, place: Place, into: Found) -> None:
        is_read = into is self.reads
        if self._workspace.is_unreadable(place.real) if is_read else self._workspace.is_hidden(place.real):
            self.closed = self.closed or self._workspace.why_closed(place.given)
        if not is_read and self._is_protected(place):
            self.protected.append(place.given)

    def _walk(self, place: Place, into: Found, walker: Files) -> None:
        if self._workspace.closed_below(place.real):
            self.unclear = self.unclear or f"{place.given} holds what is closed to tools"
        if not (rules := self._rules(into)):
            return
        try:
            hidden = walker.walks_hidden
            into.possible += forbidden_below(place.real, place.given, rules, self._anchors, hidden=hidden)
        except TooMuch:
            into.is_open = True

    def _may_be_anything(self, word: Word, into: Found) -> None:
        if into is self.reads and not self._workspace.hidden:
            return
        what = "closed to tools" if into is self.reads else "a protected one"
        raw = word.raw.replace(HOLE, "…")[:100]
        self.unclear = self.unclear or f"which file {raw} is, and whether it is {what}, is not known before it runs"

    def _is_protected(self, place: Place) -> bool:
        given = place.given
        return is_protected_place(place.real, self._workspace) or is_protected_as_given(given, self._workspace)

    def _close(self, words: Words, *, is_reader: bool) -> None:
        """Find words that are paths which are closed to every tool, whatever the program does with them."""
        for word in words:
            for text in self._resolver.texts(word):
                if self._leads_to_closed(text, is_reader=is_reader):
                    self.closed = self.closed or self._workspace.why_closed(word.raw.replace(HOLE, "…"))

    def _leads_to_closed(self, text: str, *, is_reader: bool) -> bool:
        is_closed = self._workspace.is_unreadable if is_reader else self._workspace.is_hidden
        known = re.split(f"[{HOLE}{GLOB}]", text, maxsplit=1)
        text = text if len(known) == 1 else known[0].rpartition("/")[0]
        if "/" not in text and not text.startswith("."):
            return False
        texts = {text, text[2:]} if re.match(r"-[a-zA-Z]", text) else {text}
        return any(is_closed(place.real) for one in texts for place in self._resolver.parts(one))
