"""The wheel holds all that is needed: installed alone, in a fresh environment, it works from any folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ("transcripts", "migrations", "pyproject.toml", "README.md")


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel, built from a copy of the sources."""
    folder = tmp_path_factory.mktemp("package")
    clone = folder / "clone"
    clone.mkdir()
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, clone / name)
        else:
            shutil.copyfile(ROOT / name, clone / name)
    subprocess.run([sys.executable, "-m", "build", "--wheel", "--outdir", folder, clone], check=True, capture_output=True)
    shutil.rmtree(clone)
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    (wheel,) = folder.glob("*.whl")
    subprocess.run([folder / "venv" / "bin" / "pip", "install", "-q", wheel], check=True, capture_output=True)
    return folder / "venv" / "bin"


def test_the_installed_command_does_its_main_job_from_another_folder(environment: Path, tmp_path: Path) -> None:
    done = subprocess.run([environment / "transcripts", "demo"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "bytes, equal." in done.stdout
    assert os.listdir(tmp_path) == []


def test_the_installed_package_carries_its_migrations_and_its_types(environment: Path, tmp_path: Path) -> None:
    program = (
        "from importlib.resources import files\n"
        "from transcripts.index.upgrade import revisions\n"
        "from transcripts.index.database import REVISION\n"
        "assert revisions()[0] == REVISION\n"
        "assert (files('transcripts') / 'py.typed').is_file()"
    )
    subprocess.run([environment / "python", "-c", program], cwd=tmp_path, check=True)


def test_the_version_is_that_of_the_package(environment: Path, tmp_path: Path) -> None:
    done = subprocess.run([environment / "transcripts", "--version"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert f'version = "{done.stdout.split()[1]}"' in (ROOT / "pyproject.toml").read_text()
