"""The documentation says what is so."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest
import yaml

from hpcmgr.cli.root import COMMANDS, root
from hpcmgr.settings import Site, load_site

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *ROOT.glob("*/README.md")])
OWN_SITE = {"inventory": "/nonexistent", "classes": {"train": {"kinds": ["gpu"]}}}


def relative(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture(name="generate", scope="module")
def _generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["site-yaml.md", "slurm.md", "cli.md"])
def test_generated_parts_are_up_to_date(generate: ModuleType, name: str) -> None:
    """Keys, defaults, help and the table of releases are the code's (./dev docs writes them)."""
    assert generate.page(name) == (DOCS / name).read_text()


def test_every_key_of_site_yaml_has_a_row_with_a_meaning(generate: ModuleType) -> None:
    """No key without words, none that the models do not have."""
    text = generate.site_keys()
    keys = {
        (field.alias or name)
        for _, model in generate._sections(Site, "")
        for name, field in model.model_fields.items()
    }
    rows = re.findall(r"(?m)^\| `(\w+)` \| (.+) \| (.+) \| (\S.*) \|$", text)

    assert {row[0] for row in rows} == keys
    assert "`classes.NAME`" in text
    assert "`nodes[]`" in text


def test_a_key_without_a_meaning_is_noticed(generate: ModuleType) -> None:
    """The generator fails, and so does the test above."""
    assert "Site.inventory" in generate._meanings("class Site:\n    inventory: int = 1\n    'x'\n")
    assert generate._meanings("class Site:\n    inventory: int = 1\n    other: int = 2\n") == {}


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link names a file, and a heading where it has an anchor."""
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path) if path else page
        assert found.exists(), f"{relative(page)}: {target}"
        if anchor:
            heads = re.findall(r"(?m)^#+ (.*)$", found.read_text())
            assert anchor in {re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in heads}


def spans(page: Path) -> Iterator[str]:
    """Code of a page: indented lines, fenced lines, and spans in backticks."""
    text = page.read_text()
    for block in re.findall(r"(?ms)^```.*?^```", text):
        yield from block.splitlines()
    yield from re.findall(r"(?m)^ {4}(?! )(.*)$", text)
    yield from re.findall(r"`([^`\n]+)`", text)


def test_every_command_and_option_on_the_pages_is_there() -> None:
    """`hpcmgr NAME --option` in code: the command has it."""
    context = click.Context(root, info_name="hpcmgr")
    count = 0
    for page in PAGES:
        for code in spans(page):
            for name, rest in re.findall(r"(?:^|[\s$'|])hpcmgr ([a-z]+)([^|;'#`]*)", code):
                command = root.get_command(context, name)
                assert command is not None, f"{relative(page)}: hpcmgr {name}"
                words = rest.split("   ")[0]
                if isinstance(command, click.Group):
                    command = command.get_command(context, (words.split() or [""])[0]) or command
                known = {o for p in command.params for o in (*p.opts, *p.secondary_opts)}
                for option in re.findall(r"(?<!\S)(--[a-z][a-z-]*)", words):
                    count += 1
                    assert option in known | {"--help"}, f"{relative(page)}: {name} {option}"
    assert count >= 5
    assert set(COMMANDS) <= set(re.findall(r"hpcmgr (\w+)", (DOCS / "cli.md").read_text()))


def test_every_verb_on_the_pages_is_in_the_makefile() -> None:
    """./dev VERB and make VERB."""
    verbs = set(re.findall(r"(?m)^([a-z-]+):", (ROOT / "Makefile").read_text()))

    used = {
        verb
        for page in PAGES
        for code in spans(page)
        for verb in re.findall(r"(?:^|\s)(?:\./dev|make) ([a-z-]+)", code)
    }

    assert {"demo", "test", "docs"} <= used <= verbs


def examples(page: str) -> Iterator[dict[str, Any]]:
    """Indented blocks of a page that are site.yaml."""
    for block in re.findall(r"(?m)(?:^ {4}.*\n)+", (DOCS / page).read_text()):
        if re.match(r" {4}(schema|fabric|nodes|classes|service):", block):
            yield yaml.safe_load(block)


def test_examples_of_site_yaml_are_good(tmp_path: Path) -> None:
    """Those of the pages, and the reference site's."""
    found = [e for page in DOCS.glob("*.md") for e in examples(page.name)]

    assert len(found) >= 3
    for number, example in enumerate(found):
        path = tmp_path / f"{number}.yaml"
        path.write_text(yaml.safe_dump(example))
        load_site(path)
    assert load_site(ROOT / "slurm-conf" / "site.yaml").fabric


@pytest.fixture(name="site", scope="module")
def _site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site that has the reference machines."""
    place = tmp_path_factory.mktemp("site")
    (place / "inventory").mkdir()
    for host in ("mixed", "t4x4", "a100x8"):
        found = hpcmgr("discover", "--host", str(ROOT / "tests/hosts" / host), "--json")
        node = {**json.loads(found.stdout), "node": host}
        (place / "inventory" / f"{host}.json").write_text(json.dumps(node))
    path = place / "site.yaml"
    path.write_text(yaml.safe_dump({**OWN_SITE, "inventory": str(place / "inventory")}))
    return path


def hpcmgr(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hpcmgr", *args], capture_output=True, text=True, timeout=60
    )


def test_what_users_are_told_to_write_becomes_devices(site: Path) -> None:
    """Every --gres=compute… of users.md and README.md, and the words in the middle."""
    text = (DOCS / "users.md").read_text() + (ROOT / "README.md").read_text()
    requests = set(re.findall(r"--gres=(compute[\w:,]*)", text)) - {"compute:800"}
    words = ("gpu", "npu", "cuda", "cann", "nvidia", "t4", "train")
    requests |= {f"compute:{word}:2" for word in words}

    assert len(requests) >= 10
    for request in sorted(requests):
        done = hpcmgr("--config", str(site), "quote", request, "--idle")
        assert done.returncode == 0, f"{request}: {done.stdout}{done.stderr}"
        assert "becomes" in done.stdout


def test_what_users_are_told_they_will_read_is_what_they_read(site: Path) -> None:
    """The messages for compute:12 and compute:800."""
    page = (DOCS / "users.md").read_text()
    told = re.findall(r"(?m)^ {4}sbatch: (compute:12 .*|16 units .*)$", page)
    becomes = hpcmgr("--config", str(site), "quote", "compute:12", "--idle").stdout
    refused = hpcmgr("--config", str(site), "quote", "compute:800", "--idle").stdout

    assert len(told) == 2
    assert all(line in becomes for line in told), becomes
    assert "compute:800: no device fits. gpu:a100: at most 8 on a node, 100 needed" in refused
    assert re.search(r"What would fit: compute:a100:64, compute:ascend910b3:\d+, ", refused)


def test_units_in_users_md_are_the_profiles() -> None:
    """T4 2, A100 and 910B3 8, H100 SXM 25."""
    from hpcmgr.profile import load_library

    library = load_library()
    units = {n: library.get(n).booked_units for n in ("t4", "a100-80g", "ascend910b3", "h100-80g")}

    assert units == {"t4": 2, "a100-80g": 8, "ascend910b3": 8, "h100-80g": 25}
    assert "H100 SXM 25" in (DOCS / "users.md").read_text()


def test_readme_is_one_page_and_install_has_ten_steps() -> None:
    """What does not fit goes to docs/."""
    steps = re.findall(r"(?m)^\*\*(\d+)\. ", (DOCS / "install.md").read_text())

    assert len((ROOT / "README.md").read_text().splitlines()) <= 75
    assert steps == [str(number) for number in range(1, 11)]


def test_the_picture_is_there_and_loads_nothing() -> None:
    """docs/img/demo.svg, made by `make picture` from a real run."""
    svg = (DOCS / "img" / "demo.svg").read_text()

    assert "sbatch" in svg
    assert "url(http" not in svg
