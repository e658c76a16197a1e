"""The bytes of pictures and documents."""

from typing import Protocol


class Blobs(Protocol):
    """The bytes of a session's images and documents, by their `BlobId`."""

    def put(self, data: bytes) -> str:
        """Keep bytes for good and return their name; the same bytes have the same name.

        Blocking: call it in a worker. Raises: StorageUnavailable.
        """
        ...

    def get(self, blob: str) -> bytes:
        """The bytes again. Blocking. Raises: KeyError for a name that is none, or whose bytes are gone."""
        ...
