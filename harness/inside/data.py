"""What a pickle is turned into besides plain containers: inert records, never called."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Global:
    """A class or function a pickle names: the name alone, nothing imported."""

    name: str


@dataclass(eq=False)
class Inert:
    """What a pickle says of an object of a known class: how it is made, not the object."""

    name: str
    args: tuple[object, ...]
    state: object = None
    elements: list[object] = field(default_factory=list)
    pairs: list[tuple[object, object]] = field(default_factory=list)


class OrderedMap(dict[object, object]):
    """An OrderedDict, whose attributes (a module's version metadata, say) are kept apart."""

    attributes: object = None


@dataclass
class NumpyType:
    """A numpy element type: kind and size as in `u4`, and its byte order."""

    code: str
    order: str = "|"


@dataclass(eq=False)
class NumpyArray:
    """An array named but not yet filled; the machine puts its tensor in `content`."""

    content: object = None
