"""The tensors of a loaded checkpoint, by path, and the plain values beside them."""

from .data import Global, Inert, NumpyArray, OrderedMap
from .refusal import Refusal
from .tensors import Tensor

MAX_DEPTH = 200
MAX_NAME = 1024
MAX_TENSORS = 100_000
MAX_VALUES = 100_000
# Where a configuration object of a known class keeps its content.
_CONTENT = ("_content", "_val")


def tensors(root: object) -> dict[str, Tensor]:
    """Every tensor that can be reached from `root`, by its slash path.

    Path parts: dict keys, `~` and `/` written `~0` and `~1`; places in a sequence, filled with
    zeros to the width of its last one; `__args__`, `__state__`, `__elements__` and `__pairs__`
    of an object. A tensor reached by several paths stands under each; cycles are not followed.
    Raises Refusal for two tensors of one path, and for a structure that unfolds endlessly.
    """
    if isinstance(root, Tensor):
        return {"": root}
    found: dict[str, Tensor] = {}
    _collect(root, "", _leading(root), set(), found)
    return found


def _collect(
    node: object, path: str, leading: set[int], above: set[int], found: dict[str, Tensor]
) -> None:
    if len(above) > MAX_DEPTH:
        raise Refusal(f"tensors nested more than {MAX_DEPTH} deep")
    above.add(id(node))
    for name, child in _children(node):
        if id(child) not in leading or id(child) in above:
            continue
        if name is None:
            raise Refusal(f"a tensor in {path or 'the file'} under a key that is no text or number")
        place = f"{path}/{name}" if path else name
        if len(place) > MAX_NAME:
            raise Refusal(f"{place:.80}...: a name of {len(place)} characters")
        if not isinstance(child, Tensor):
            _collect(child, place, leading, above, found)
            continue
        if place in found or len(found) >= MAX_TENSORS:
            raise Refusal(f"{place:.200}: two tensors of this name, or too many tensors")
        found[place] = child
    above.remove(id(node))


def _leading(root: object) -> set[int]:
    """Ids of the nodes from which a tensor can be reached; each node is looked at once."""
    parents: dict[int, list[int]] = {id(root): []}
    waiting, todo = [root], []
    while waiting:
        node = waiting.pop()
        for _, child in _children(node):
            if id(child) not in parents:
                parents[id(child)] = []
                waiting.append(child)
                if isinstance(child, Tensor):
                    todo.append(id(child))
            parents[id(child)].append(id(node))
    leading = set(todo)
    while todo:
        for parent in parents[todo.pop()]:
            if parent not in leading:
                leading.add(parent)
                todo.append(parent)
    return leading


def _children(node: object) -> list[tuple[str | None, object]]:
    """The containers, objects and tensors directly in `node`, each with its part of a path."""
    named: list[tuple[str | None, object]] = []
    if isinstance(node, dict):
        named = [(_part(key), value) for key, value in node.items() if _inner(value)]
        if isinstance(node, OrderedMap):
            named.append(("__state__", node.attributes))
    elif isinstance(node, list | tuple):
        width = len(str(max(len(node) - 1, 0)))
        named = [(f"{n:0{width}}", value) for n, value in enumerate(node) if _inner(value)]
    elif isinstance(node, Inert):
        # Lists made once and kept by the object: their ids must last as long as the walk.
        named = [
            ("__args__", node.args),
            ("__state__", node.state),
            ("__elements__", node.elements),
            ("__pairs__", node.pairs),
        ]
    return [(name, _filled(value)) for name, value in named if _inner(value)]


def _inner(value: object) -> bool:
    return isinstance(value, dict | list | tuple | Inert | Tensor | NumpyArray)


def _filled(value: object) -> object:
    if isinstance(value, NumpyArray):
        if value.content is None:
            raise Refusal("numpy.ndarray without its content")
        return value.content
    return value


def _part(key: object) -> str | None:
    if isinstance(key, str):
        return key.replace("~", "~0").replace("/", "~1")
    return str(key) if type(key) is int else None


def plain(value: object) -> object:
    """`value` as JSON where it can be; objects of no known content as `{"class": name}`.

    Numbers that JSON lacks become text; settings beyond a fixed depth or size are left out.
    """
    try:
        return _Plain().render(value)
    except Refusal as error:
        return {"omitted": str(error)}


class _Plain:
    def __init__(self) -> None:
        self._left = MAX_VALUES

    def render(self, value: object, depth: int = 0) -> object:
        self._left -= 1 + (len(value) >> 6 if isinstance(value, str) else 0)
        if self._left < 0 or depth > MAX_DEPTH:
            raise Refusal("settings too large or too deep to show")
        if isinstance(value, Inert):
            return self._object(value, depth)
        if isinstance(value, dict):
            return {self._key(k): self.render(v, depth + 1) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [self.render(item, depth + 1) for item in value]
        if isinstance(value, set):
            return sorted((self.render(item, depth + 1) for item in value), key=repr)
        if isinstance(value, Tensor):
            return {"tensor": value.dtype.name, "shape": list(value.shape)}
        if isinstance(value, Global):
            return {"class": value.name}
        if isinstance(value, bytes):
            return {"bytes": len(value)}
        if isinstance(value, float) and not -float("inf") < value < float("inf"):
            return str(value)
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 1 << 53:
            return str(value)
        return value if isinstance(value, str | int | float | None) else type(value).__name__

    def _object(self, value: Inert, depth: int) -> object:
        state = value.state
        if value.name.startswith("omegaconf.") and isinstance(state, dict):
            for name in _CONTENT:
                if name in state:
                    return self.render(state[name], depth + 1)
        if value.pairs:
            return {self._key(k): self.render(v, depth + 1) for k, v in value.pairs}
        if value.name.startswith("pathlib.") and all(isinstance(a, str) for a in value.args):
            return "/".join(str(a) for a in value.args).replace("//", "/", 1)
        return {"class": value.name}

    def _key(self, key: object) -> str:
        return key if isinstance(key, str) else str(self.render(key))
