"""Try every import of an upstream's code in the environment it is to run in.

Run inside the sandbox: `python imports.py < request > found`. The request is JSON: `root`, the
tree; `entrypoint`, its program, relative to it. All Python files of the project that the program
belongs to are read; what they import from outside is imported. What only files ask for that the
program does not import, or what the code asks for and goes on without, is optional.
"""

import ast
import importlib
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath

# Who catches one of these asks whether a module is there, and goes on without it.
_ASKS = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}


@dataclass(frozen=True, order=True)
class Import:
    """One imported thing: a module, or a name of it; `place` is `file:line`."""

    module: str
    name: str
    place: str
    optional: bool


def imports(root: Path, entrypoint: PurePath) -> list[Import]:
    """What the files of the entry point's project import from outside the tree."""
    project = root / entrypoint.parts[0] if len(entrypoint.parts) > 1 else root
    folders = [root / parent for parent in entrypoint.parents]
    reached = _reached(root / entrypoint, folders)
    found = []
    for file in sorted(project.rglob("*.py")):
        for node, optional in _statements(_parsed(file), optional=file not in reached):
            place = f"{file.relative_to(root)}:{node.lineno}"
            for module, name in _imported(node):
                top = module.partition(".")[0]
                if top not in sys.stdlib_module_names and not _local(top, folders):
                    found.append(Import(module, name, place, optional))
    return found


def _parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_bytes(), str(file))


def _reached(program: Path, folders: list[Path]) -> set[Path]:
    """The files of the tree that a program imports, by way of others too, itself included."""
    reached: set[Path] = set()
    left = [program]
    while left:
        file = left.pop()
        if file in reached or not file.is_file():
            continue
        reached.add(file)
        for node, _ in _statements(_parsed(file), optional=False):
            if isinstance(node, ast.ImportFrom) and node.level:
                above = [file.parents[node.level - 1]]
                names = [f"{node.module or ''}.{alias.name}".strip(".") for alias in node.names]
            else:
                above = folders
                names = [f"{module}.{name}".strip(".") for module, name in _imported(node)]
            left += [path for name in names for at in above for path in _files(at, name)]
    return reached


def _files(folder: Path, name: str) -> Iterator[Path]:
    """The files that importing a dotted name runs, if its modules lie in `folder`."""
    at = folder
    for part in name.split("."):
        yield at / f"{part}.py"
        at = at / part
        yield at / "__init__.py"


def _statements(
    node: ast.AST, *, optional: bool
) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """The import statements below `node`, and whether each may fail."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield node, optional
    asks = isinstance(node, ast.Try) and any(map(_asks, node.handlers))
    for child in ast.iter_child_nodes(node):
        inside = asks and isinstance(node, ast.Try) and child in node.body
        yield from _statements(child, optional=optional or inside)


def _asks(handler: ast.ExceptHandler) -> bool:
    caught = handler.type
    kinds = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(kind is None or (isinstance(kind, ast.Name) and kind.id in _ASKS) for kind in kinds)


def _imported(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    """Module and name of each thing that a statement imports, its own package left out."""
    if isinstance(node, ast.Import):
        yield from ((alias.name, "") for alias in node.names)
    elif node.level == 0 and node.module is not None:
        yield from ((node.module, alias.name) for alias in node.names)


def _local(top: str, folders: list[Path]) -> bool:
    """Whether a top-level module is the tree's own, found from one of these folders."""
    return any((at / f"{top}.py").is_file() or any((at / top).rglob("*.py")) for at in folders)


def attempt(module: str, name: str) -> tuple[str, str]:
    """Import a thing: the file it came from (if any), and why it failed (if it did)."""
    try:
        found = importlib.import_module(module)
        if name not in ("", "*") and not hasattr(found, name):
            importlib.import_module(f"{module}.{name}")
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:
        return "", " ".join(f"{type(error).__name__}: {error}".split())
    return getattr(found, "__file__", None) or "", ""


def main() -> None:
    """Answer one request: a JSON list, a thing imported each."""
    request = json.load(sys.stdin)
    told = sys.stdout
    sys.stdout = sys.stderr  # modules print while they are imported
    wanted: dict[tuple[str, str], list[Import]] = {}
    for one in imports(Path(request["root"]), PurePath(request["entrypoint"])):
        wanted.setdefault((one.module, one.name), []).append(one)
    answer = []
    for (module, name), ones in sorted(wanted.items()):
        file, error = attempt(module, name)
        answer.append(
            {
                "module": module,
                "name": name,
                "places": [one.place for one in ones],
                "optional": all(one.optional for one in ones),
                "file": file,
                "error": error,
            }
        )
    json.dump(answer, told)


if __name__ == "__main__":
    main()
