"""The few constructors whose results a checkpoint is about: tensors, arrays, containers.

Each takes a pickle's own arguments, trusts none of them, and makes plain data. The argument
orders are those of `torch._utils`, `numpy._core.multiarray` and the standard library.
"""

import struct
from collections.abc import Callable, Sequence

from .data import Global, NumpyArray, NumpyType, OrderedMap
from .names import TORCH_DTYPES
from .refusal import Refusal
from .tensors import DTYPES, Storage, Tensor, contiguous, tensor

# Elements copied so far are counted, so that a small pickle cannot ask for endless copies.
Charge = Callable[[int], None]
Builder = Callable[..., object]
_NUMPY = {
    "b1": "bool",
    **{f"{kind}{size}": f"{name}{8 * size}" for kind, name in (("i", "int"), ("u", "uint"))
       for size in (1, 2, 4, 8)},
    **{f"f{size}": f"float{8 * size}" for size in (2, 4, 8)},
    **{f"c{size}": f"complex{8 * size}" for size in (8, 16)},
}  # fmt: skip
_SCALARS = {"b1": "?", "i1": "b", "i2": "h", "i4": "i", "i8": "q", "f2": "e", "f4": "f", "f8": "d"}
_SCALARS |= {code.replace("i", "u"): c.upper() for code, c in _SCALARS.items() if code[0] == "i"}


def _tensor_v2(
    _: Charge,
    storage: object,
    offset: object,
    size: object,
    stride: object,
    _requires_grad: object = False,
    hooks: object = None,
    metadata: object = None,
) -> Tensor:
    _plain_view(hooks, metadata)
    return tensor(
        storage, storage.dtype if isinstance(storage, Storage) else None, offset, size, stride
    )


def _tensor_v3(
    _: Charge,
    storage: object,
    offset: object,
    size: object,
    stride: object,
    _requires_grad: object,
    hooks: object,
    dtype: object,
    metadata: object = None,
) -> Tensor:
    _plain_view(hooks, metadata)
    name = dtype.name if isinstance(dtype, Global) else ""
    return tensor(storage, TORCH_DTYPES.get(name), offset, size, stride)


def _plain_view(hooks: object, metadata: object) -> None:
    if hooks or metadata:
        raise Refusal("a tensor with hooks, or a conjugate or negative view: not read")


def _parameter(_: Charge, value: object, *__: object) -> Tensor:
    if not isinstance(value, Tensor):
        raise Refusal("torch.nn.parameter.Parameter of what is no tensor")
    return value


def _from_type(charge: Charge, function: object, kind: object, args: object, _: object) -> Tensor:
    name = function.name if isinstance(function, Global) else ""
    kinds = ("torch.Tensor", "torch.nn.parameter.Parameter")
    if name not in TENSOR_BUILDERS or not isinstance(kind, Global) or kind.name not in kinds:
        raise Refusal(f"a tensor of the class {getattr(kind, 'name', kind)!s:.200}: not read")
    if not isinstance(args, tuple):
        raise Refusal("a tensor without arguments")
    return TENSOR_BUILDERS[name](charge, *args)


def _size(charge: Charge, values: object) -> tuple[object, ...]:
    return tuple(_copied(charge, values))


def _device(_: Charge, kind: str, index: int = 0) -> str:
    return f"{kind}:{index}"


def _ordered(charge: Charge, pairs: object = ()) -> OrderedMap:
    result = OrderedMap()
    for pair in _copied(charge, pairs):
        key, value = _copied(charge, pair)
        result[checked_key(key)] = value
    return result


def _set(charge: Charge, values: object = ()) -> set[object]:
    return {checked_key(value) for value in _copied(charge, values)}


def _copied(charge: Charge, values: object) -> Sequence[object]:
    if not isinstance(values, list | tuple):
        raise Refusal("a container made of what is no list")
    charge(len(values))
    return values


def checked_key(key: object) -> object:
    """`key`, where it is plain enough to be hashed safely; else Refusal."""
    plain = (str, int, float, bool, bytes, type(None), Global)
    if isinstance(key, plain) or (
        type(key) is tuple and len(key) <= 16 and all(isinstance(part, plain) for part in key)
    ):
        return key
    raise Refusal(f"a key or set element of the kind {type(key).__name__}")


def _bytes(charge: Charge, text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise Refusal(f"_codecs.encode to {encoding!r:.50}: only latin1 is written by pickle")
    charge(len(text))
    return text.encode(encoding)


def _bytearray(charge: Charge, content: bytes | str = b"", encoding: str = "latin1") -> bytes:
    if isinstance(content, str):
        return _bytes(charge, content, encoding)
    if not isinstance(content, bytes):
        raise Refusal("builtins.bytearray of what is no bytes")
    return content


def _complex(_: Charge, real: float, imaginary: float) -> list[float]:
    return [float(real), float(imaginary)]


def _numpy_type(_: Charge, code: str, *_flags: object) -> NumpyType:
    return NumpyType(code.lstrip("<|="), "|" if code[:1] not in "<=" else "<")


def _numpy_shell(_: Charge, *__: object) -> NumpyArray:
    return NumpyArray()


def _numpy_buffer(
    _: Charge, content: object, kind: object, shape: object, order: object
) -> NumpyArray:
    return NumpyArray(numpy_tensor(kind, shape, order == "F", content))


def numpy_tensor(kind: object, shape: object, fortran: object, content: object) -> Tensor:
    """An array's content as a tensor. Raises Refusal for objects, records and big-endian data."""
    dtype = DTYPES[_NUMPY[_little(kind)]]
    if not isinstance(content, bytes | bytearray):
        raise Refusal("numpy.ndarray whose content is no bytes")
    if not isinstance(shape, tuple) or not all(type(n) is int and n >= 0 for n in shape):
        raise Refusal("numpy.ndarray whose shape is not made of whole numbers")
    made = contiguous(shape[::-1] if fortran else shape, dtype, memoryview(content))
    if made.bytes != len(content):
        raise Refusal(f"numpy.ndarray of shape {list(shape)} in {len(content)} bytes")
    return tensor(made.storage, dtype, 0, shape, made.strides[::-1]) if fortran else made


def _numpy_scalar(_: Charge, kind: object, content: bytes) -> object:
    code = _little(kind)
    if code not in _SCALARS:
        raise Refusal(f"numpy scalar of the type {code}")
    return struct.unpack("<" + _SCALARS[code], content)[0]


def _little(kind: object) -> str:
    if not isinstance(kind, NumpyType) or kind.code not in _NUMPY:
        code = kind.code if isinstance(kind, NumpyType) else kind
        raise Refusal(f"numpy.ndarray of the type {code!r:.50}: objects and records are not read")
    if kind.order == ">":
        raise Refusal("numpy.ndarray in big-endian order: not read")
    return kind.code


TENSOR_BUILDERS: dict[str, Callable[..., Tensor]] = {
    "torch._utils._rebuild_tensor": _tensor_v2,
    "torch._utils._rebuild_tensor_v2": _tensor_v2,
    "torch._utils._rebuild_tensor_v3": _tensor_v3,
    "torch._utils._rebuild_parameter": _parameter,
    "torch._utils._rebuild_parameter_with_state": _parameter,
}
BUILDERS: dict[str, Builder] = {
    **TENSOR_BUILDERS,
    "torch._tensor._rebuild_from_type_v2": _from_type,
    "torch.Size": _size,
    "torch.device": _device,
    "collections.OrderedDict": _ordered,
    "builtins.set": _set,
    "builtins.frozenset": _set,
    "builtins.bytearray": _bytearray,
    "builtins.bytes": _bytearray,
    "builtins.complex": _complex,
    "_codecs.encode": _bytes,
    "numpy.dtype": _numpy_type,
    "numpy._core.multiarray._reconstruct": _numpy_shell,
    "numpy._core.multiarray.scalar": _numpy_scalar,
    "numpy._core.numeric._frombuffer": _numpy_buffer,
}
