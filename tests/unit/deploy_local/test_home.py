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
