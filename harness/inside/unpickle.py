"""A pickle machine that executes nothing: it can only make plain data and inert records.

The opcodes are parsed by `pickletools`; each has its method here, or is refused. No name in the
pickle is ever imported. Time and memory are bounded by the pickle's own length.
"""

import pickletools
import struct
from collections.abc import Callable
from typing import Any, ClassVar

from .builders import BUILDERS, checked_key, numpy_tensor
from .data import Global, Inert, NumpyArray, NumpyType, OrderedMap
from .names import full_name, is_known
from .refusal import Refusal
from .storages import FindStorage, Storages

MAX_OPCODES = 20_000_000
MAX_INT_BITS = 1024
MAX_NAME = 200
# What a wrong argument or a cut pickle raises in the parser and the constructors.
_DAMAGE = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, struct.error)


class _Mark:
    """The marker on the stack."""


MARK = _Mark()


class Machine:
    """Reads one pickle; `find_storage` gives the bytes of a storage by its key."""

    def __init__(self, data: bytes, find_storage: FindStorage) -> None:
        """Prepare to read `data`, a pickle of protocol 2 to 5."""
        self._data = data
        self._stack: list[object] = []
        self._memo: dict[int, object] = {}
        self._storages = Storages(find_storage)
        self._globals: dict[str, Global] = {}
        self._copies = 4 * len(data) + 1024
        self.classes: set[str] = set()

    @property
    def storages(self) -> frozenset[str]:
        """Keys of the storages the pickle names."""
        return frozenset(self._storages.found)

    def load(self) -> object:
        """The pickled value, inert. Raises Refusal for what is damaged or not plain data."""
        try:
            return self._run()
        except _DAMAGE as error:
            raise Refusal(f"damaged pickle: {' '.join(str(error).split())[:200]}") from error

    def _run(self) -> object:
        steps = pickletools.genops(self._data)
        for count, (opcode, argument, position) in enumerate(steps):
            if count > MAX_OPCODES:
                raise Refusal(f"a pickle of more than {MAX_OPCODES} steps")
            if opcode.name == "STOP":
                if len(self._stack) != 1 or position is None or position + 1 != len(self._data):
                    raise Refusal("a pickle that ends with something left over")
                return self._stack[0]
            if opcode.name in _CONSTANTS:
                self._stack.append(_CONSTANTS[opcode.name])
            elif opcode.name in _LITERALS:
                self._stack.append(_literal(argument))
            elif opcode.name in self._STEPS:
                self._STEPS[opcode.name](self, argument)
            else:
                detail = f" ({argument!s:.200})".replace("\n", " ") if argument else ""
                raise Refusal(f"pickle opcode {opcode.name}{detail}: not used by a checkpoint")
        raise Refusal("truncated pickle")

    def charge(self, count: int) -> None:
        """Count elements copied by a constructor. Raises Refusal beyond the pickle's own size."""
        self._copies -= count
        if self._copies < 0:
            raise Refusal("a pickle that copies more than it holds")

    # Stack and memo.

    def _pop(self) -> object:
        if not self._stack or self._stack[-1] is MARK:
            raise Refusal("damaged pickle: nothing on its stack")
        return self._stack.pop()

    def _top(self) -> object:
        if not self._stack or self._stack[-1] is MARK:
            raise Refusal("damaged pickle: nothing on its stack")
        return self._stack[-1]

    def _to_mark(self) -> list[object]:
        values: list[object] = []
        while self._stack[-1] is not MARK:
            values.append(self._stack.pop())
        self._stack.pop()
        values.reverse()
        return values

    def _mark(self, _: object) -> None:
        self._stack.append(MARK)

    def _discard(self, _: object) -> None:
        self._stack.pop()

    def _discard_to_mark(self, _: object) -> None:
        self._to_mark()

    def _put(self, index: int) -> None:
        self._memo[index] = self._top()

    def _memoize(self, _: object) -> None:
        self._memo[len(self._memo)] = self._top()

    def _get(self, index: int) -> None:
        self._stack.append(self._memo[index])

    def _ignore(self, _: object) -> None:
        """Protocol numbers and frames say nothing about the value."""

    # Containers.

    def _new_dict(self, _: object) -> None:
        self._stack.append({})

    def _new_list(self, _: object) -> None:
        self._stack.append([])

    def _new_set(self, _: object) -> None:
        self._stack.append(set())

    def _tuple(self, _: object) -> None:
        self._stack.append(tuple(self._to_mark()))

    def _short_tuple(self, count: int) -> None:
        values = [self._pop() for _ in range(count)]
        self._stack.append(tuple(values[::-1]))

    def _append(self, _: object) -> None:
        self._extend([self._pop()])

    def _appends(self, _: object) -> None:
        self._extend(self._to_mark())

    def _extend(self, values: list[object]) -> None:
        target = self._top()
        if isinstance(target, Inert):
            target.elements.extend(values)
        elif isinstance(target, list):
            target.extend(values)
        else:
            raise Refusal("damaged pickle: elements added to what is no list")

    def _set_item(self, _: object) -> None:
        value = self._pop()
        self._set_pairs([self._pop(), value])

    def _set_items(self, _: object) -> None:
        self._set_pairs(self._to_mark())

    def _set_pairs(self, flat: list[object]) -> None:
        target, pairs = self._top(), list(zip(flat[::2], flat[1::2], strict=True))
        if isinstance(target, Inert):
            target.pairs.extend((checked_key(key), value) for key, value in pairs)
        elif isinstance(target, dict):
            target.update((checked_key(key), value) for key, value in pairs)
        else:
            raise Refusal("damaged pickle: entries added to what is no dict")

    def _add_items(self, _: object) -> None:
        values, target = self._to_mark(), self._top()
        if not isinstance(target, set):
            raise Refusal("damaged pickle: elements added to what is no set")
        target.update(checked_key(value) for value in values)

    def _frozen_set(self, _: object) -> None:
        self._stack.append({checked_key(value) for value in self._to_mark()})

    # Names, objects, storages.

    def _global(self, argument: str) -> None:
        # pickletools joins module and name by a blank, which neither of them holds.
        module, _, name = argument.partition(" ")
        self._push_global(module, name)

    def _stack_global(self, _: object) -> None:
        name, module = self._pop(), self._pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise Refusal("damaged pickle: a name that is no text")
        self._push_global(module, name)

    def _push_global(self, module: str, name: str) -> None:
        full = full_name(module, name)
        if len(full) > MAX_NAME or (full not in BUILDERS and not is_known(full)):
            shown = full.encode("ascii", "backslashreplace").decode()[:MAX_NAME]
            raise Refusal(f"{shown}: not among the classes a checkpoint may hold; nothing was run")
        self._stack.append(self._globals.setdefault(full, Global(full)))

    def _reduce(self, _: object) -> None:
        args = self._pop()
        self._make(self._pop(), args)

    def _new_object(self, _: object) -> None:
        args = self._pop()
        self._make(self._pop(), args)

    def _new_object_keywords(self, _: object) -> None:
        keywords, args, kind = self._pop(), self._pop(), self._pop()
        self._make(kind, (args, keywords) if keywords else args)

    def _make(self, kind: object, args: object) -> None:
        if not isinstance(kind, Global) or not isinstance(args, tuple):
            raise Refusal("a call of something that is no known class")
        builder = BUILDERS.get(kind.name)
        if builder is not None:
            self._stack.append(builder(self.charge, *args))
            return
        self.classes.add(kind.name)
        self._stack.append(Inert(kind.name, args))

    def _build(self, _: object) -> None:
        state, target = self._pop(), self._top()
        if isinstance(target, Inert) and target.state is None:
            target.state = state
        elif isinstance(target, OrderedMap) and target.attributes is None:
            target.attributes = state
        elif isinstance(target, NumpyArray) and target.content is None:
            if not isinstance(state, tuple) or len(state) != 5:
                raise Refusal("numpy.ndarray with an unknown state")
            target.content = numpy_tensor(state[2], state[1], state[3], state[4])
        elif isinstance(target, NumpyType):
            if not isinstance(state, tuple) or len(state) < 5 or state[2:5] != (None, None, None):
                raise Refusal("numpy.dtype of records: not read")
            target.order = str(state[1])
        else:
            raise Refusal("a state for something that takes none")

    def _persistent(self, _: object) -> None:
        self._stack.append(self._storages.resolve(self._pop()))

    # The opcodes of protocols 2 to 5; those of older ones and of extensions are refused.
    _STEPS: ClassVar[dict[str, Callable[[Any, Any], None]]] = {
        "PROTO": _ignore,
        "FRAME": _ignore,
        "MARK": _mark,
        "POP": _discard,
        "POP_MARK": _discard_to_mark,
        "BINPUT": _put,
        "LONG_BINPUT": _put,
        "MEMOIZE": _memoize,
        "BINGET": _get,
        "LONG_BINGET": _get,
        "EMPTY_DICT": _new_dict,
        "EMPTY_LIST": _new_list,
        "EMPTY_SET": _new_set,
        "TUPLE": _tuple,
        "TUPLE1": lambda self, _: self._short_tuple(1),
        "TUPLE2": lambda self, _: self._short_tuple(2),
        "TUPLE3": lambda self, _: self._short_tuple(3),
        "APPEND": _append,
        "APPENDS": _appends,
        "SETITEM": _set_item,
        "SETITEMS": _set_items,
        "ADDITEMS": _add_items,
        "FROZENSET": _frozen_set,
        "GLOBAL": _global,
        "STACK_GLOBAL": _stack_global,
        "REDUCE": _reduce,
        "NEWOBJ": _new_object,
        "NEWOBJ_EX": _new_object_keywords,
        "BUILD": _build,
        "BINPERSID": _persistent,
    }


def _literal(value: object) -> object:
    if isinstance(value, int) and value.bit_length() > MAX_INT_BITS:
        raise Refusal(f"an integer of {value.bit_length()} bits")
    return bytes(value) if isinstance(value, bytearray) else value


_CONSTANTS: dict[str, object] = {
    "NONE": None,
    "NEWTRUE": True,
    "NEWFALSE": False,
    "EMPTY_TUPLE": (),
}
_LITERALS = frozenset(
    (
        *("BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT"),
        *("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
        *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
    )
)
