"""The page in a real browser, without a network."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hpcmgr.capacity.page import page
from lightcluster import needs
from lightcluster.demo.capacity import CHROMIUM
from lightcluster.errors import NeedsError
from tests.unit.capacity.test_forms import busy

LOOK = """<script>
const seen = {
  width: document.documentElement.scrollWidth - window.innerWidth,
  background: getComputedStyle(document.body).backgroundColor,
  ink: getComputedStyle(document.body).color,
  marks: document.querySelectorAll(".node i").length,
  flat: [...document.querySelectorAll(".bar span")].filter(s => s.offsetWidth < 2).length,
  bars: document.querySelectorAll(".bar").length,
  age: document.getElementById("age").textContent,
  scripts: document.scripts.length,
  fetched: performance.getEntriesByType("resource").map(entry => entry.name),
};
document.title = JSON.stringify(seen);
</script>"""


@pytest.fixture(name="chromium", scope="module")
def _chromium() -> str:
    """The program; CI installs it, elsewhere its absence is a reason to skip."""
    ci = os.environ.get("CI") == "true"
    if shutil.which("chromium") is None and ci:
        try:
            needs.install(["chromium"], needs.machine())
        except NeedsError as error:
            pytest.fail(f"CI must be able to show the page: {error}", pytrace=False)
    found = shutil.which("chromium")
    if found is None:
        pytest.skip("chromium is not installed (Debian: apt-get install chromium)")
    return found


def look(chromium: str, folder: Path, *flags: str) -> dict[str, Any]:
    """What the page says of itself."""
    file = folder / "page.html"
    file.write_text(page(busy()).replace("</body>", LOOK + "</body>"))
    done = subprocess.run(
        [chromium, *CHROMIUM[1:], *flags, f"--user-data-dir={folder}/profile", "--dump-dom",
         file.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
        env={**os.environ, "HOME": str(folder)},
    )  # fmt: skip
    title = re.search(r"<title>(.*?)</title>", done.stdout)
    assert title
    found = json.loads(title[1].replace("&amp;", "&"))
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(("scheme", "dark"), [(1, False), (0, True)], ids=["light", "dark"])
def test_the_page_shows_in_a_browser(
    chromium: str, tmp_path: Path, scheme: int, dark: bool
) -> None:
    """Its own script runs and no other, it fits the window, every part of a bar is seen, in both
    colour schemes; nothing is fetched."""
    flags = ("--window-size=1180,1400", f"--blink-settings=preferredColorScheme={scheme}")
    seen = look(chromium, tmp_path, *flags)

    assert seen["width"] <= 0
    assert seen["marks"] == 4 + 4 + 8 + 4 + 2
    assert seen["bars"] == 3
    assert seen["flat"] == 0
    assert seen["age"].endswith("ago")
    assert seen["scripts"] == 2  # the page's, and this test's
    light = [sum(map(int, re.findall(r"\d+", seen[what])[:3])) for what in ("background", "ink")]
    assert (light[0] < light[1]) is dark
    assert abs(light[0] - light[1]) > 350
    assert seen["fetched"] == []


def test_a_narrow_window_scrolls_tables_and_not_the_page(chromium: str, tmp_path: Path) -> None:
    """500 pixels, the least that a headless window can be."""
    seen = look(chromium, tmp_path, "--window-size=500,900")

    assert seen["width"] <= 0
