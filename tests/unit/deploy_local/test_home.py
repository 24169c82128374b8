from pathlib import Path

from deploy.local.home import Home


def test_downloads_may_be_kept_elsewhere_and_cleared_away_there(tmp_path: Path) -> None:
    elsewhere = tmp_path / "another disk" / "cache"
    home = Home(tmp_path / "home")
    home.root.mkdir()
    home.cache.symlink_to(elsewhere)
    for _ in range(2):
        home.create()
        assert home.cache.is_symlink()
        assert elsewhere.is_dir()


def test_other_users_can_read_nothing_of_the_state(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.create()
    assert home.root.stat().st_mode & 0o777 == 0o700
    # PostgreSQL's own user passes through, on stacks that root runs; it needs no more than that.
    home.root.chmod(0o755)
    home.create()
    assert home.root.stat().st_mode & 0o777 == 0o711
