"""The rooms of each package: their imports go one way, and each says in its docstring what it imports."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("pipeline", "rollout", "configs")
ENTRIES = ("pipeline.cli", "rollout.worker")  # above every room: what a process starts with
MOST_ROOMS, MOST_ARROWS, MOST_FILES = 20, 60, 21


def room_of(module: str) -> str:
    """The folder below the package that holds a module; the package's own files are a room, each entry another."""
    package, *rest = module.split(".")
    if rest and (ROOT / package / rest[0]).is_dir():
        return rest[0]
    return rest[0] if module in ENTRIES else package


def imports_of(path: Path, package: str) -> set[str]:
    """Modules of the package that a file imports, inside functions too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{a.name}" for a in node.names} if node.module == package else {node.module}
    return {module for module in found if module.split(".")[0] == package}


def arrows(package: str) -> dict[str, set[str]]:
    """Each room, and the rooms that it imports."""
    graph: dict[str, set[str]] = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        imported = graph.setdefault(room_of(module), set())
        imported |= {room_of(m) for m in imports_of(path, package)} - {room_of(module)}
    return graph


def cycle(graph: dict[str, set[str]]) -> set[str]:
    """The rooms that are left when those that import no other are taken away, again and again."""
    left = {room: set(imported) for room, imported in graph.items()}
    while free := {room for room, imported in left.items() if not imported}:
        left = {room: imported - free for room, imported in left.items() if room not in free}
    return set(left)


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_between_rooms_go_one_way(package: str) -> None:
    graph = arrows(package)
    num_arrows = sum(len(imported) for imported in graph.values())
    print(f"{package}: {len(graph)} rooms, {num_arrows} arrows")
    for room, imported in sorted(graph.items(), key=lambda entry: len(entry[1])):
        print(f"  {room:14} → {', '.join(sorted(imported)) or '–'}")
    assert cycle(graph) == set()
    assert len(graph) <= MOST_ROOMS and num_arrows <= MOST_ARROWS


def test_a_cycle_is_found() -> None:
    assert cycle({"a": {"b"}, "b": {"c"}, "c": set()}) == set()
    assert cycle({"a": {"b"}, "b": {"a"}, "c": {"a"}, "d": set()}) == {"a", "b", "c"}


@pytest.mark.parametrize("package", PACKAGES)
def test_each_room_says_what_it_imports(package: str) -> None:
    for room, imported in arrows(package).items():
        if not (ROOT / package / room).is_dir():
            continue
        text = ast.get_docstring(ast.parse((ROOT / package / room / "__init__.py").read_text())) or ""
        said = re.search(r"^Imports: ([\w, ]+)\.$", text, re.MULTILINE)
        rooms = set(said[1].split(", ")) if said else set()
        assert rooms == imported, f"{package}/{room}: its docstring's last line should be " + (
            f"“Imports: {', '.join(sorted(imported))}.”"
        )


@pytest.mark.parametrize("package", PACKAGES)
def test_no_room_is_crowded(package: str) -> None:
    rooms = {path.parent for path in (ROOT / package).rglob("*.py")}
    crowded = {
        str(room.relative_to(ROOT)): num
        for room in rooms
        if (num := sum(1 for p in room.glob("*.py") if p.name != "__init__.py")) > MOST_FILES
    }
    assert crowded == {}
