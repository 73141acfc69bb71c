"""Request forms: all of them, with real scripts and plain Slurm beside: ``python -m
tests.request_table``. Here are those that no other test submits, and scrontab."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lightcluster.enter import Completed
from lightcluster.site import ReferenceSite
from tests.request_table.forms import Form, het
from tests.request_table.outcome import Outcome, submit, verdict
from tests.slurm.probe import allocation, indices

pytestmark = pytest.mark.slurm

FORMS = (
    "--gres=gpu:t4",
    "--gres=gres/npu:1",
    "--gres=gpu:a100:1,npu:1",
    "--gpus-per-node=t4:2 --mem-per-gpu=64",
    "--tres-per-task=cpu=1,gres/npu=1 -n2 -N1",
    "--gres=compute",
    "--gres=gres/compute:8",
    "--gres=compute:8,vram:each:40960M",
    "--gres=compute:t4:2 -N1-2",
)


@pytest.mark.parametrize("options", FORMS)
def test_a_form_runs_with_its_units(site: ReferenceSite, options: str) -> None:
    """Whatever the spelling, the job starts, with devices and units."""
    done = submit(site, Form(options, (f"#SBATCH {options}",)))

    assert (done.code, done.state) == (0, "RUNNING"), done
    assert "gres/compute" in done.became
    assert "gres/gpu" in done.became or "gres/npu" in done.became


def test_each_component_has_devices_and_units_of_its_own(site: ReferenceSite) -> None:
    """An NPU for the first, two T4 asked directly for the second."""
    script = het(["--gres=compute:npu:8"], ["--gres=gpu:t4:2"]).script
    job_id = site.sbatch("-o", "/dev/null", script=script)
    site.wait_job(job_id, ["RUNNING"], 25)
    first, second = (next(iter(allocation(site, f"{job_id}+{n}")[0].values()))[1] for n in (0, 1))

    assert len(indices(first, "npu:ascend910b3")) == 1
    assert first.endswith("compute(CNT:8),vram(CNT:64)")
    assert len(indices(second, "gpu:t4")) == 2
    assert second.endswith("compute(CNT:4),vram(CNT:32)")


def test_a_refused_component_refuses_the_whole(site: ReferenceSite) -> None:
    """Nothing of it is queued, and the words tell which component it was."""
    done = submit(site, het(["--gres=compute:t4:2"], ["--gres=compute:800"]))

    assert done.code != 0
    assert "1: compute:800: no device fits" in done.said
    assert not site.run(["squeue", "-h"]).stdout


def test_a_difference_from_plain_slurm_is_on_purpose_only_in_our_words() -> None:
    """What the table calls on purpose: a refusal from the catalogue of messages."""
    form, plain = Form("x", ()), Outcome(0, "", "TresPerJob=gres/gpu:2", "RUNNING")
    ours = "--gpus=2 needs a number of nodes that divides it (-N): its units are counted per node. "
    ours += "Or ask per node, with --gpus-per-node or --gres Batch job submission failed"

    assert verdict(form, Outcome(1, ours), plain) == (True, "refused here on purpose (totals)")
    assert not verdict(form, Outcome(1, "Requested node configuration is not available"), plain)[0]
    assert not verdict(form, Outcome(0, "", "", "PENDING (Resources)"), plain)[0]


@pytest.fixture(name="cron")
def _cron(site: ReferenceSite) -> Iterator[ReferenceSite]:
    """The site with scrontab."""
    before = (site.controller.root / "etc/slurm/slurm.conf").read_text()
    site.write_conf({"slurm.conf": f"{before}\nScronParameters=enable\n"})
    site.reconfigure()
    site.close_breaker()
    yield site
    site.run(["scrontab", "-r"], user="alice")
    site.write_conf({"slurm.conf": before})
    site.reconfigure()


def scrontab(site: ReferenceSite, options: str) -> Completed:
    """A crontab of one job, far in the future."""
    text = f"#SCRON {options}\n#SCRON -o /dev/null\n0 0 29 2 * sleep 1\n"
    site.controller.run(["tee", "/tmp/table"], input=text, check=True)
    return site.run(["scrontab", "/tmp/table"], user="alice")


def test_scrontab_is_bound_when_it_is_installed(cron: ReferenceSite) -> None:
    """The user is told; a table that cannot be served is refused, and the old one stays."""
    done = scrontab(cron, "--gres=compute:t4:2")
    assert "becomes 1 x gpu:t4" in done.stderr
    refused = scrontab(cron, "--gres=compute:800")
    jobs = cron.run(["squeue", "-h", "-o", "%r %b"]).stdout.splitlines()

    assert refused.returncode != 0
    assert jobs == ["BeginTime gres/gpu:t4:1,gres/compute:2,gres/vram:16"]
