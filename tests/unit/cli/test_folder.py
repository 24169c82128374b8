from pathlib import Path

from cli.kb_files import find_files


def test_links_out_of_a_folder_are_not_followed(tmp_path: Path) -> None:
    """An archive from elsewhere may hold a link to anything that its reader can read."""
    secret, folder = tmp_path / "secret.txt", tmp_path / "folder"
    secret.write_text("private")
    (folder / "inner").mkdir(parents=True)
    (folder / "own.txt").write_text("own")
    (folder / "inside.md").symlink_to("own.txt")
    (folder / "outside.md").symlink_to(secret)
    (folder / "inner" / "relative.md").symlink_to("../../secret.txt")
    (folder / "chain.md").symlink_to("outside.md")
    (folder / "hidden").symlink_to(tmp_path)
    found, skipped = find_files([folder])
    assert sorted(path.name for path in found) == ["inside.md", "own.txt"]
    assert skipped == []


def test_a_folder_that_is_a_link_itself_was_named(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "own.txt").write_text("own")
    (tmp_path / "here").symlink_to("there")
    assert [path.name for path in find_files([tmp_path / "here"])[0]] == ["own.txt"]
