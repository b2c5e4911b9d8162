"""The name of a project's folder is the one that the client makes."""

from __future__ import annotations

from pathlib import Path

import pytest

from transcripts.files.place import project_key


@pytest.mark.parametrize(
    ("directory", "key"),
    [
        ("/home/dev/shop", "-home-dev-shop"),
        ("/home/dev/my_shop.v2", "-home-dev-my-shop-v2"),
        ("/", "-"),
        ("/nowhere/é", "-nowhere--"),
        ("/nowhere/e\u0301", "-nowhere--"),  # the same letter in two parts is one
        ("/nowhere/😀b", "-nowhere---b"),  # two units of UTF-16
    ],
)
def test_each_other_character_is_a_hyphen(directory: str, key: str) -> None:
    assert project_key(directory) == key


@pytest.mark.parametrize(
    ("directory", "tail"),
    [("/" + "/".join(f"folder{number}" for number in range(40)), "-ma4kh2"), ("/nowhere/" + "😀b" * 90, "-v64gw8")],
)
def test_a_long_name_is_cut_and_hashed(directory: str, tail: str) -> None:
    """The hashes were computed by the client's formula in its own language."""
    key = project_key(directory)
    assert key[:200] == project_key(directory[:100])[:100] + key[100:200]
    assert key[200:] == tail


def test_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert project_key(tmp_path / "link") == project_key(tmp_path / "real")
