"""Packages to be measured against: each in an environment of its own, in a process that times itself."""

import contextlib
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any, Self

import orjson
import platformdirs

from benches.timing import Sample, tell


class Worker:
    """A Python process that answers a line of JSON with one: wall and CPU seconds of a call, and how many things it gave.

    It times itself: that it has to start counts for nothing.
    """

    def __init__(self, python: Path, program: str) -> None:
        self._process = subprocess.Popen([str(python), "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def ask(self, asked: dict[str, Any]) -> Sample:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(orjson.dumps(asked) + b"\n")
        self._process.stdin.flush()
        told = self._process.stdout.readline()
        if not told:
            raise SystemExit("the process of a package to compare with has ended")
        return Sample(*orjson.loads(told))


def environment(package: str, version: str, given: Path | None = None, *options: str) -> Path | None:
    """A Python with a package: the one given, else one of our own in the cache folder; None when it cannot be had."""
    if given is not None:
        return given if has(given, package, version) else None
    folder = platformdirs.user_cache_path("transcripts") / f"bench-{package}-{version}"
    python = folder / "bin" / "python"
    if not has(python, package, version):
        tell(f"installing {package} {version}")
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            venv.create(folder, clear=True, with_pip=True)
            command = [python, "-m", "pip", "install", "--quiet", *options, f"{package}=={version}"]
            subprocess.run(command, check=True, stdout=sys.stderr)
    return python if has(python, package, version) else None


def npm_environment(package: str, version: str) -> Path | None:
    """The folder with the commands of a package from npm, in a folder of our own in the cache; None when it cannot be had."""
    folder = platformdirs.user_cache_path("transcripts") / f"bench-{package}-{version}"
    told = folder / "node_modules" / package / "package.json"
    with contextlib.suppress(OSError, ValueError, subprocess.CalledProcessError):
        if not told.exists():
            tell(f"installing {package} {version}")
            folder.mkdir(parents=True, exist_ok=True)
            command = ["npm", "install", "--silent", "--prefix", folder, f"{package}@{version}"]
            subprocess.run(command, check=True, stdout=sys.stderr)
        if orjson.loads(told.read_bytes())["version"] == version:
            return folder / "node_modules" / ".bin"
    return None


def has(python: Path, package: str, version: str) -> bool:
    """Whether a Python has just this version of a package."""
    program = f"from importlib.metadata import version; assert version('{package}') == '{version}'"
    try:
        return not subprocess.run([python, "-c", program], check=False, stderr=subprocess.DEVNULL).returncode
    except OSError:
        return False
