"""The only way anything interactive is answered: the first answer wins, and everybody who waits gets it."""

from typing import Generic, TypeVar

import anyio

T = TypeVar("T")


class Reply(Generic[T]):
    """An answer that does not exist yet. Resolving is synchronous; waiting may be cancelled and begun again."""

    def __init__(self) -> None:
        self._event = anyio.Event()
        self._values: list[T] = []

    @property
    def is_resolved(self) -> bool:
        return bool(self._values)

    def resolve(self, value: T) -> bool:
        """Give the answer. False, and nothing changed, when there is one already."""
        if self._values:
            return False
        self._values.append(value)
        self._event.set()
        return True

    async def wait(self) -> T:
        await self._event.wait()
        return self._values[0]
