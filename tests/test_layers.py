"""The floors of the house: imports go down only, one module writes transcripts, and the environment is read on top."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

HOUSE = Path(__file__).parent.parent
FLOORS = ("errors", "files", "index", "sessions", "export", "api", "interfaces")
MODULES = sorted((HOUSE / "transcripts").rglob("*.py"))
TREES = {path: ast.parse(path.read_bytes()) for path in MODULES}
BELOW = [path for path in MODULES if path.relative_to(HOUSE / "transcripts").parts[0] not in ("interfaces", "__init__.py")]

MAY_WRITE = {
    "files/writer.py",  # transcripts: the only one
    "export/jsonl.py",  # new files, never over an existing one
    "export/parquet.py",  # so does this
    "index/database.py",  # the database
    "interfaces/cli/asking_sql.py",  # the history of a prompt
    "interfaces/cli/charts.py",  # a new picture
}


def name_of(path: Path) -> str:
    return str(path.relative_to(HOUSE / "transcripts"))


def module_of(path: Path) -> str:
    parts = path.relative_to(HOUSE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def floor_of(module: str) -> int:
    """The floor of `transcripts.<floor>...`; the package itself stands on top of all."""
    parts = module.split(".")
    return FLOORS.index(parts[1]) if len(parts) > 1 else len(FLOORS)


def imports(path: Path) -> Iterator[str]:
    """Every module that is imported anywhere in a file, also inside a function."""
    for node in ast.walk(TREES[path]):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            for alias in node.names:
                deeper = HOUSE.joinpath(*(node.module or "").split("."), alias.name)
                is_module = deeper.is_dir() or deeper.with_suffix(".py").is_file()
                yield f"{node.module}.{alias.name}" if is_module else str(node.module)


def calls(path: Path) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(TREES[path]):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def opens_for_writing(name: str, call: ast.Call) -> bool:
    words = " ".join(ast.unparse(argument) for argument in [*call.args[1:], *(keyword.value for keyword in call.keywords)])
    if name == "os.open":
        flags = ("O_WRONLY", "O_RDWR", "O_APPEND", "O_CREAT", "O_TRUNC")
        return any(flag in words for flag in flags) and ast.unparse(call.args[0]) != "os.devnull"
    if name in ("open", "io.open", "os.fdopen") or name.endswith(".open"):
        modes = [node.value for node in ast.walk(call) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        return any(0 < len(mode) < 4 and set(mode) & set("wax+") and set(mode) <= set("rwaxbt+") for mode in modes)
    if name == "jsonl.write_bytes":  # to a file that the caller has opened
        return False
    writing = (".write_text", ".write_bytes", ".NamedTemporaryFile", ".mkstemp", "os.replace", "os.rename", "os.truncate")
    return name.endswith(writing)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
class TestFloors:
    def test_imports_go_down_only(self, path: Path) -> None:
        own = floor_of(module_of(path))
        for module in imports(path):
            if module.split(".")[0] == "transcripts":
                assert floor_of(module) <= own, f"{name_of(path)} imports {module}"

    def test_only_one_module_writes_transcripts(self, path: Path) -> None:
        writing = [name for name, call in calls(path) if opens_for_writing(name, call)]
        assert not writing or name_of(path) in MAY_WRITE, f"{name_of(path)} opens files for writing: {writing}"


@pytest.mark.parametrize("path", BELOW, ids=name_of)
class TestBelowInterfaces:
    def test_nothing_reads_the_environment(self, path: Path) -> None:
        names = {ast.unparse(node) for node in ast.walk(TREES[path]) if isinstance(node, ast.Attribute | ast.Name)}
        assert not names & {"os.environ", "os.getenv", "environ", "getenv", "sys.argv"}

    def test_nothing_prints(self, path: Path) -> None:
        names = {ast.unparse(node) for node in ast.walk(TREES[path]) if isinstance(node, ast.Attribute | ast.Name)}
        assert not names & {"print", "sys.stdout", "sys.stderr", "logging", "warnings.warn"}
        assert not {module.split(".")[0] for module in imports(path)} & {"click", "rich", "logging", "platformdirs"}


class TestKeepers:
    def test_the_files_floor_knows_no_database(self) -> None:
        files = [path for path in MODULES if name_of(path).startswith("files/")]
        assert not {module.split(".")[0] for path in files for module in imports(path)} & {"sqlalchemy", "sqlite3", "alembic"}

    def test_alembic_is_imported_by_one_module(self) -> None:
        users = [name_of(path) for path in MODULES if any(module.split(".")[0] == "alembic" for module in imports(path))]
        assert users == ["index/upgrade.py"]

    def test_only_the_index_floor_and_its_openers_write_rows(self) -> None:
        for path in MODULES:
            if not name_of(path).startswith("index/"):
                assert not {name for name, _call in calls(path) if name in ("insert", "update", "delete")}, name_of(path)
                assert not {name for name, _call in calls(path) if name.endswith("database.write")}, name_of(path)

    def test_every_module_says_what_it_is(self) -> None:
        assert [name_of(path) for path, tree in TREES.items() if not ast.get_docstring(tree)] == []
