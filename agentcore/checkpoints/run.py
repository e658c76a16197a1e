"""The checkpoint of the run that is going on: what it changed so far, written ahead of each change.

The order of a change, each step durable before the next:

1. what the path holds now is kept (`Vault.put`), when it is the run's first change to it;
2. the manifest says what the agent is about to leave there, beside what it left before;
3. the file is replaced in one step;
4. the manifest says what is there now.

A process that is killed after 1 leaves an unused content, which is pruned. After 2 the path holds something that the
manifest calls either the agent's or the original, whichever side of step 3 it was: an undo takes back the one and
leaves the other. After 3 the same. So whatever an undo replaces was written by the agent; a content that it does not
know is nobody's but the person's, and stays. A person's change between two of the agent's becomes the new original.

A command's changes are known only when it has ended: killed before, they are not in the manifest, so they stay.
"""

import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agentcore.checkpoints.looks import Changed
from agentcore.checkpoints.manifest import (
    Entry,
    Held,
    Left,
    Manifest,
    decoded_path,
    digest_of,
    encoded_path,
    left_of,
)
from agentcore.checkpoints.vault import Unreadable, Vault
from agentcore.ports.checkpoints import FileChange
from agentcore.ports.clock import Clock

MAX_UNKEPT = 2_000
"""Paths of a run that are remembered though they cannot be taken back; of further ones only the number."""


class RunCheckpoint:
    """Not safe for threads: its owner holds a lock. All methods block and raise OSError where the disk fails."""

    def __init__(self, run: str, vault: Vault, clock: Clock) -> None:
        self.run = run
        self._clock = clock
        self._vault = vault
        self._number: int | None = None
        self._entries: dict[Path, Entry] = {}
        self._folders: list[str] = []
        self._further = 0
        self._is_loaded = False

    @property
    def paths(self) -> tuple[Path, ...]:
        self._load()
        return tuple(self._entries)

    @contextmanager
    def changing(self, change: FileChange) -> Iterator[None]:
        """Keep what a file holds around its replacement; without that the replacement must not be made."""
        self._load()
        path, earlier = change.real, self._entries.get(change.real)
        before = None if change.before is None else self._held(change.before, change.mode or 0, earlier)
        self._folders += [encoded_path(folder) for folder in change.made]
        after = left_of(change.after)
        entry = self._entries[path] = _followed(earlier, path, before, after)
        try:
            self._write()
            yield
        except BaseException:
            self._take_back(path, earlier)
            raise
        if len(entry.left) > 1:
            self._entries[path] = entry.model_copy(update={"left": entry.left[-1:]})
            with suppress(OSError):  # what is written already is true as well, only less exact
                self._write()

    def changed(self, changes: Iterable[Changed]) -> None:
        """Take what a command changed."""
        self._load()
        is_changed = False
        try:
            for change in changes:
                is_changed = True
                self._take(change)
        finally:
            if is_changed:
                self._write()

    # --- inside ---

    def _take(self, change: Changed) -> None:
        path, earlier = change.path, self._entries.get(change.path)
        held = None if change.before is None else self._held(*change.before, earlier)
        if change.why_not is None:
            self._entries[path] = _followed(earlier, path, held, change.left, ends=True)
        elif held is not None and (earlier is None or _is_new(held, earlier)):
            self._entries[path] = Entry(path=encoded_path(path), before=held, why_not=change.why_not)
        elif earlier is not None:
            return  # it holds something else now: an undo sees that by itself
        elif len(self._entries) < MAX_UNKEPT:
            self._entries[path] = Entry(path=encoded_path(path), why_not=change.why_not)
        else:
            self._further += 1

    def _held(self, data: bytes, mode: int, earlier: Entry | None) -> Held:
        """The content that a path has before a change; kept only where it is what an undo would go back to."""
        digest = digest_of(data)
        held = Held(blob=digest, mode=stat.S_IMODE(mode))
        if earlier is None or _is_new(held, earlier):
            self._vault.put(data)
        return held

    def _load(self) -> None:
        """A run that goes on after a restart goes on with its manifest."""
        if self._is_loaded:
            return
        self._is_loaded = True
        number = self._vault.find(self.run)
        try:
            manifest = None if number is None else self._vault.read(number)
        except Unreadable:
            return  # it stays as it is: what the run changes from now on has a manifest of its own
        self._number = number
        if manifest is not None:
            self._entries = {decoded_path(entry.path): entry for entry in manifest.entries}
            self._folders, self._further = list(manifest.folders), manifest.further

    def _write(self) -> None:
        if self._number is None:
            self._number = max(self._vault.numbers(), default=0) + 1
        manifest = Manifest(
            run=self.run,
            ts=round(self._clock.now(), 3),
            entries=tuple(self._entries.values()),
            folders=tuple(self._folders),
            further=self._further,
        )
        self._vault.write(self._number, manifest)

    def _take_back(self, path: Path, earlier: Entry | None) -> None:
        """The change was not made."""
        if earlier is not None:
            self._entries[path] = earlier
        else:
            del self._entries[path]
        with suppress(OSError):  # what is written already is true as well, only less exact
            if self._entries:
                self._write()
            elif self._number is not None:
                self._vault.remove(self._number)
                self._number = None


def _is_new(held: Held, earlier: Entry) -> bool:
    """Whether what a path holds before a change is not what the agent left there."""
    return all(left.blob != held.blob for left in earlier.left)


def _followed(earlier: Entry | None, path: Path, before: Held | None, after: Left, *, ends: bool = False) -> Entry:
    """The entry of a path with one more change: from `before` to `after`; `ends` when it is over already."""
    if earlier is not None and earlier.why_not is not None:
        return earlier  # what it was before the run is not known, whatever happens to it now
    here = Left() if before is None else Left(blob=before.blob)
    if earlier is None or all(left.blob != here.blob for left in earlier.left):
        return Entry(path=encoded_path(path), before=before, left=(after,))
    mode = next(left.mode for left in earlier.left if left.blob == here.blob)
    if after.mode is None:
        after = after.model_copy(update={"mode": mode})
    still_there = () if ends else (here.model_copy(update={"mode": mode}),)
    return earlier.model_copy(update={"left": (*still_there, after)})
