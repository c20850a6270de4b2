"""The storages a torch pickle names by persistent ids, each found once in the archive."""

from collections.abc import Callable

from .data import Global
from .names import STORAGE_DTYPES, UNTYPED
from .refusal import Refusal
from .tensors import Storage

FindStorage = Callable[[str], memoryview]


class Storages:
    """Storages by key; `find` gives the bytes of one."""

    def __init__(self, find: FindStorage) -> None:
        """Begin with none found."""
        self._find = find
        self.found: dict[str, Storage] = {}

    def resolve(self, identifier: object) -> Storage:
        """The storage of `("storage", type, key, location, number of elements)`.

        Raises Refusal where the identifier is another thing, or does not fit the bytes found.
        """
        if (
            not isinstance(identifier, tuple)
            or len(identifier) != 5
            or identifier[0] != "storage"
            or not isinstance(identifier[1], Global)
            or not isinstance(identifier[2], str)
            or type(identifier[4]) is not int
        ):
            raise Refusal("a persistent id that is no storage")
        _, kind, key, _, count = identifier
        dtype = STORAGE_DTYPES.get(kind.name)
        if dtype is None and kind.name not in UNTYPED:
            raise Refusal(f"{kind.name}: no storage of a kind that is read")
        storage = self.found.get(key)
        if storage is None:
            storage = self.found[key] = Storage(dtype, self._find(key))
        if storage.dtype != dtype or count * (dtype.size if dtype else 1) != len(storage.data):
            raise Refusal(f"storage {key:.50}: {len(storage.data)} bytes, not what is said of it")
        return storage
