"""The disk below the checkpoints of one session: contents by their SHA-256, and one manifest a run. All in one folder.

Everything blocks. Contents and manifests are made as temporary files, synced and renamed, so each is there whole or
not at all; `write` syncs the folder too, so whatever a manifest names is durable when it returns. Manifests are
numbered in the order of the runs' first changes.
"""

import logging
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from agentcore.checkpoints.manifest import FORMAT, Held, Manifest, digest_of
from agentcore.folders import read_regular, sync_folder

log = logging.getLogger(__name__)

KEPT_S = 7 * 86_400.0  # the contract's time that checkpoints are kept
YOUNG_S = 3_600.0
"""A content without a manifest may belong to a change that is going on, here or in another process."""
MAX_PRUNED = 20_000
"""Names that one pruning looks at; the next one goes on."""
_MANIFEST = re.compile(r"run-(\d{6,})-(\w+)\.json")
_BLOB = re.compile(r"[0-9a-f]{64}")


class Unreadable(Exception):
    """A manifest is damaged, or of a newer version; the text is its file's name."""


class Vault:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    # --- contents ---

    def put(self, data: bytes) -> str:
        """Keep bytes and return their name; durable with the next `write`. Raises: OSError."""
        name = digest_of(data)
        path = self._folder / name
        try:
            os.utime(path)  # so that a pruning that is going on takes it for young
        except FileNotFoundError:
            self._make(name, data)
        return name

    def get(self, name: str) -> bytes:
        """The bytes again. Raises: KeyError where they are gone or are not what the name says."""
        try:
            data = read_regular(self._folder / name)
        except OSError as error:
            raise KeyError(name) from error
        if digest_of(data) != name:
            raise KeyError(name)
        return data

    # --- manifests ---

    def numbers(self) -> list[int]:
        """Of the runs that changed files, the oldest first."""
        return sorted(number for number, _ in self._manifests())

    def find(self, run: str) -> int | None:
        return next((number for number, path in self._manifests() if path.name.endswith(f"-{run}.json")), None)

    def read(self, number: int) -> Manifest | None:
        """A manifest, None where it is gone. Raises: Unreadable."""
        path = next((path for other, path in self._manifests() if other == number), None)
        manifest = None if path is None else _parsed(path)
        if path is not None and manifest is None and os.path.lexists(path):
            raise Unreadable(path.name)
        return manifest

    def write(self, number: int, manifest: Manifest) -> None:
        """Put a manifest in the place of the one before it; durable when it returns. Raises: OSError."""
        self._make(f"run-{number:06d}-{manifest.run}.json", manifest.model_dump_json(exclude_defaults=True).encode())
        sync_folder(self._folder)

    def reduce(self, number: int, manifest: Manifest) -> None:
        """Put less in the place of a manifest, and forget the contents that only the rest needed. Raises: OSError."""
        self.write(number, manifest)
        self._drop_unused(younger_than=float("inf"))

    def remove(self, number: int) -> None:
        """Forget a run, and the contents that only it needed."""
        for other, path in self._manifests():
            if other == number:
                path.unlink(missing_ok=True)
        self._drop_unused(younger_than=float("inf"))
        with suppress(OSError):
            self._folder.rmdir()  # only when it is empty

    # --- the end ---

    def prune(self, now: float) -> None:
        """Forget runs that are too old, contents that no run needs, and what a killed process left half made."""
        for _, path in self._manifests():
            manifest = _parsed(path)
            with suppress(OSError):
                if (path.stat().st_mtime if manifest is None else manifest.ts) < now - KEPT_S:
                    path.unlink()
        self._drop_unused(younger_than=now - YOUNG_S)

    def _drop_unused(self, younger_than: float) -> None:
        manifests = [_parsed(path) for _, path in self._manifests()]
        if any(manifest is None for manifest in manifests):
            return  # what it needs is not known
        needed = {held.blob for manifest in manifests if manifest is not None for held in _contents_of(manifest)}
        for count, path in enumerate(self._names()):
            if count >= MAX_PRUNED:
                return
            if path.name in needed or not (_BLOB.fullmatch(path.name) or path.suffix == ".tmp"):
                continue
            with suppress(OSError):
                if path.stat().st_mtime < younger_than:
                    path.unlink()

    # --- inside ---

    def _manifests(self) -> Iterator[tuple[int, Path]]:
        for path in self._names():
            if found := _MANIFEST.fullmatch(path.name):
                yield int(found[1]), path

    def _names(self) -> list[Path]:
        """Of everything that is kept; nothing where that cannot be looked at."""
        try:
            return list(self._folder.iterdir())
        except OSError as error:
            if not isinstance(error, FileNotFoundError):
                log.info("checkpoints of %s cannot be looked at: %s", self._folder.parent.name, error.strerror)
            return []

    def _make(self, name: str, data: bytes) -> None:
        """Make a file that is there whole or not at all."""
        if not self._folder.is_dir():
            self._folder.mkdir(mode=0o700, exist_ok=True)
            sync_folder(self._folder.parent)
        half_made = self._folder / f"{secrets.token_hex(8)}.tmp"
        try:
            with os.fdopen(os.open(half_made, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            half_made.replace(self._folder / name)
        except BaseException:
            with suppress(OSError):
                half_made.unlink()
            raise


def _parsed(path: Path) -> Manifest | None:
    try:
        manifest = Manifest.model_validate_json(read_regular(path), extra="ignore")
    except (OSError, ValueError):
        log.warning("checkpoint %s cannot be read", path.name)
        return None
    return manifest if manifest.format <= FORMAT else None


def _contents_of(manifest: Manifest) -> Iterator[Held]:
    return (entry.before for entry in manifest.entries if entry.before is not None)
