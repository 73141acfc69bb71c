"""The reader of Key=Value files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcmgr.slurm.capability import Release
from hpcmgr.verify.conf import logical_lines, read_conf
from hpcmgr.verify.configuration import read_configuration
from hpcmgr.verify.rules import apply_rules

WORDS = st.sampled_from(
    ["NodeName=", "Name=gpu", "Type=", "File=/dev/x[", "0-3]", "Count=9", "Cores=0-7", "Include ",
     "include a.conf", "#", "\\", "\n", "\r\n", '"', " ", "=", "SwitchName=s", "Nodes=a[1-", "2]",
     "AutoDetect=nv", "\0", "é", "Gres=gpu:", "a:1", ",", "PartitionName=DEFAULT", "\x0c"]
)  # fmt: skip
TEXT = st.one_of(st.text(max_size=300), st.lists(WORDS, max_size=40).map("".join))


def write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode(errors="surrogatepass"))
    return path


def test_pairs_have_the_line_on_which_they_begin(tmp_path: Path) -> None:
    """A continued record stands at its first line; comments and blank lines count."""
    text = '# head\n\nA=1  # tail\nNodeName=n1 \\\n  CPUs=4\nB = "two words"\n'

    conf = read_conf(write(tmp_path / "slurm.conf", text))

    found = [(e.place.line, [(p.key, p.value) for p in e.pairs]) for e in conf.entries]
    assert found == [
        (3, [("A", "1")]),
        (4, [("NodeName", "n1"), ("CPUs", "4")]),
        (6, [("B", "two words")]),
    ]
    assert not conf.problems


def test_an_escaped_hash_is_no_comment() -> None:
    """A backslash before # keeps it; a # inside quotes still begins a comment, as in Slurm."""
    assert [line for _, line in logical_lines('A=x\\#y\nB="a#b"\n')] == ["A=x\\#y", 'B="a']


def test_includes_are_read_in_place(tmp_path: Path) -> None:
    """An included entry has the place of its own file."""
    write(tmp_path / "more.conf", "B=2\n")

    conf = read_conf(write(tmp_path / "slurm.conf", "A=1\ninclude more.conf\nC=3\n"))

    assert [e.head for e in conf.entries] == ["a", "b", "c"]
    assert str(conf.entries[1].place) == f"{tmp_path / 'more.conf'}:1"


@pytest.mark.parametrize(
    ("text", "rule", "line"),
    [
        ("A=1\nInclude gone.conf\n", "include-missing", 2),
        ("Include slurm.conf\n", "include-loop", 1),
        ("AccountingStorageTRES: gres/gpu\n", "syntax", 1),
        ("A=1\nB=\n", "syntax", 2),
        ('A="open value\n', "syntax", 1),
        ("A=1\n{{ range .nodes }}\n", "template", 2),
    ],
)
def test_bad_form_is_a_finding(tmp_path: Path, text: str, rule: str, line: int) -> None:
    """What Slurm refuses is told with its line."""
    conf = read_conf(write(tmp_path / "slurm.conf", text))

    assert [(p.rule, p.place.line) for p in conf.problems] == [(rule, line)]


def test_a_directory_instead_of_a_file_is_said(tmp_path: Path) -> None:
    """Some installers make a directory gres.conf."""
    (tmp_path / "gres.conf").mkdir()

    conf = read_conf(tmp_path / "gres.conf")

    assert [p.rule for p in conf.problems] == ["not-a-file"]


@given(TEXT)
def test_any_text_is_read_and_linted_without_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    """Whatever stands in the files, the reader and all rules live."""
    folder = tmp_path_factory.mktemp("any")
    for name in ("slurm.conf", "gres.conf", "cgroup.conf", "topology.conf", "topology.yaml",
                 "a.conf", "dev.txt"):  # fmt: skip
        write(folder / name, text)

    for release in ("24.11.5", "26.05.5"):
        for finding in apply_rules(read_configuration(folder, Release.parse(release))):
            assert finding.text
            assert finding.fix or finding.severity == "note"


def test_collected_files_are_read_without_a_traceback(corpus: Path, tmp_path: Path) -> None:
    """Files from public repositories, right and wrong ones, pass through reader and rules."""
    folders = {"gres": "gres.conf", "slurmconf": "slurm.conf", "topology": "topology.conf"}
    files = [
        (path, name)
        for sub, name in folders.items()
        for path in (corpus.parents[1] / "slurm" / sub).rglob("*.conf")
    ]
    if not files:
        pytest.skip("no collected Slurm files here")
    for path, name in files:
        folder = tmp_path / path.parent.name / path.stem
        folder.mkdir(parents=True)
        (folder / name).write_bytes(path.read_bytes())
        apply_rules(read_configuration(folder, Release.parse("26.05.5")))
