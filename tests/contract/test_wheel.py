"""What is installed from the wheel works without the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(name="wheel", scope="module")
def _wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation",
         "--wheel-dir", str(out), str(ROOT)],
        check=True, capture_output=True,
    )  # fmt: skip
    [wheel] = out.glob("hpcmgr-*.whl")
    return wheel


def test_templates_lua_profiles_and_types_travel_in_the_wheel(wheel: Path) -> None:
    """And nothing of tests, clusters or caches does."""
    names = set(zipfile.ZipFile(wheel).namelist())

    assert {f"hpcmgr/_templates/{p.name}" for p in (ROOT / "templates").iterdir()} <= names
    lua = {p.relative_to(ROOT / "lua").as_posix() for p in (ROOT / "lua").rglob("*.lua")}
    assert {f"hpcmgr/_lua/{name}" for name in lua} <= names
    assert "hpcmgr/py.typed" in names
    assert "hpcmgr/profile/devices/a100-80g.yaml" in names
    assert {n.split("/")[0].split("-")[0] for n in names} == {"hpcmgr"}


def test_an_installed_wheel_discovers_and_renders(wheel: Path, tmp_path: Path) -> None:
    """In an environment of its own, away from the checkout."""
    venv.create(tmp_path / "env", with_pip=False, symlinks=True)
    python = tmp_path / "env" / "bin" / "python"
    place = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True, capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    zipfile.ZipFile(wheel).extractall(place)
    here = next(Path(p) for p in sys.path if p.endswith("site-packages"))
    # The dependencies of this environment, but not its own editable hpcmgr.
    (Path(place) / "others.pth").write_text(f"{here}\n")
    site = tmp_path / "site.yaml"
    site.write_text(f"inventory: {tmp_path}/inventory\n")

    def hpcmgr(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [python, "-m", "hpcmgr", "--config", str(site), *args],
            capture_output=True, text=True, cwd=tmp_path,
            env={"PATH": os.environ["PATH"]},
        )  # fmt: skip

    where = subprocess.run(
        [python, "-c", "import hpcmgr; print(hpcmgr.__file__)"],
        check=True, capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert str(tmp_path) in where.stdout
    found = hpcmgr("discover", "--host", str(ROOT / "tests/hosts/mixed"), "--json")
    assert found.returncode == 0, found.stderr
    (tmp_path / "inventory").mkdir()
    (tmp_path / "inventory" / "mix01.json").write_text(found.stdout)
    rendered = hpcmgr("render")

    assert rendered.returncode == 0, rendered.stderr
    assert "NodeName=mix01 Name=gpu Type=a100 File=/dev/nvidia0" in rendered.stdout
