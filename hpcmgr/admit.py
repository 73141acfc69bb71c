"""Path 2, admission: request → candidates → score → rewrite.

Pure and from memory: no file, no program, no query. What comes out is a decision; the service
answers it, journals it and debits it.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from hpcmgr.errors import ConfigError, Problem, RequestError, did_you_mean
from hpcmgr.profile import ProfileLibrary
from hpcmgr.profile.performance import PerformanceTable
from hpcmgr.settings import Site
from hpcmgr.slurm.capability import has
from hpcmgr.submit.access import access_of
from hpcmgr.submit.binding import Binding, choose_binding
from hpcmgr.submit.candidates import Candidate, find_candidates, most_within
from hpcmgr.submit.direct import add_units
from hpcmgr.submit.messages import text
from hpcmgr.submit.request import Ask, Direct, JobFields, read_request
from hpcmgr.submit.rewrite import Rewrite, rewrite
from hpcmgr.submit.score import TERMS, Grades, grade, rank
from hpcmgr.submit.selectors import Selection, Selectors, make_selectors
from hpcmgr.submit.speed import Speeds
from hpcmgr.submit.template import apart, apart_text, template_candidates
from hpcmgr.submit.topology import place
from hpcmgr.submit.view import ClusterView

_MOST_FORMS = 256
"""Forms of requests that are remembered of one view."""


@dataclass(frozen=True)
class Policy:
    """What does not change between two submissions: the site, its profiles and their speeds, its
    selectors, and the weights of the score's terms."""

    site: Site
    library: ProfileLibrary
    selectors: Selectors
    speeds: Speeds
    weights: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome for one job. Just one of ``rewrite`` and ``error`` is set, or neither: the job is
    none of ours. ``ranked`` best first, ``refused`` with their reasons; ``weights`` of the score's
    terms."""

    trace: str
    request: str = ""
    rewrite: Rewrite | None = None
    error: str = ""
    weights: Mapping[str, float] = field(default_factory=dict)
    ranked: tuple[Candidate, ...] = ()
    refused: tuple[Candidate, ...] = ()


def make_policy(site: Site, library: ProfileLibrary, table: PerformanceTable) -> Policy:
    """Check the names of the site's classes against the profiles and the performance table.

    Raises:
        ConfigError: a name has two meanings, or a class names a workload that nobody has measured.
    """
    speeds = Speeds(table, library.profiles)
    problems = [
        Problem(site.file, None, f"classes.{name}: {_unknown_workload(job_class.workload, speeds)}")
        for name, job_class in site.classes.items()
        if job_class.workload and job_class.workload not in speeds.workloads
    ]
    if problems:
        raise ConfigError(problems, "name a workload of the performance table, or add its figures")
    weights = {name: getattr(site.score, name) for name in TERMS}
    return Policy(site, library, make_selectors(site, library), speeds, weights)


def _unknown_workload(workload: str, speeds: Speeds) -> str:
    maybe = did_you_mean(workload, speeds.workloads)
    return f"no workload {workload!r} in the performance table{maybe}"


def decide(
    fields: JobFields,
    policy: Policy,
    view: ClusterView,
    granted: Mapping[str, int],
    trace: str | None = None,
    *,
    late: bool = False,
) -> Decision:
    """Decide on one job; ``granted``: devices handed out since the view was taken. ``late``: it is
    already in Slurm, where the enforce bit can no longer be set."""
    trace = trace or f"t-{secrets.token_hex(6)}"
    try:
        # Users submit the same thing many times, and slurmctld waits for each answer.
        form: _Form | None = view.memo.get(fields.form)
        if form is None or form.policy is not policy:
            request = read_request(fields, view.accelerators | {"gpu", "npu"})
            if request is None:
                return Decision(trace)
            if isinstance(request, Direct):
                totals = policy.site.direct_totals
                done = add_units(request, fields, policy.library, view, totals)
                return Decision(trace, "direct", done)
            form = _work_out(request, fields, policy, view)
        return _bind(form, fields, view, granted, trace, late=late)
    except RequestError as error:
        return Decision(trace, fields.string("tres_per_node"), error=error.message)


def _bind(
    form: _Form,
    fields: JobFields,
    view: ClusterView,
    granted: Mapping[str, int],
    trace: str,
    *,
    late: bool,
) -> Decision:
    ask, policy = form.ask, form.policy
    selection, refused = form.selection, form.refused
    ranked = rank(form.grades, view, granted, policy.site.score)
    if not ranked:
        error = _nothing_fits(ask, fields, policy, view, refused)
        return Decision(trace, str(ask), error=error, refused=refused)

    def bind(candidate: Candidate, *, one_socket: bool) -> Binding:
        if late:
            return Binding(why_not=text("bound_late"))
        known = form.bindings.get((candidate.name, one_socket))
        if known is None:
            known = form.bindings[candidate.name, one_socket] = choose_binding(
                candidate,
                ranked,
                fields,
                view.release,
                movable=selection.job_class.binding == "movable",
                exclusive=form.exclusive,
                one_socket=one_socket,
            )
        return known

    placed = place(ranked, fields, selection.job_class, bind)
    if placed.why:
        wanted = text(selection.job_class.topology or "")
        error = text("topology_refused", request=ask, wanted=wanted, why=placed.why)
        return Decision(trace, str(ask), error=error, refused=refused)
    best, binding = placed.best, placed.binding
    done = rewrite(
        ask,
        fields,
        best,
        binding,
        selection.class_name,
        trace,
        features=selection.job_class.node_features,
        one_switch=placed.one_switch,
        exclusive=form.exclusive,
    )
    if selection.job_class.groups and not best.terms["free_now"]:
        done = _told_apart(done, ask, fields, selection, view)
    if placed.notes:
        done = replace(done, messages=(*done.messages, *placed.notes))
    return Decision(
        trace,
        str(ask),
        done,
        weights=policy.weights,
        ranked=placed.ranked,
        refused=(*placed.lost, *refused),
    )


@dataclass(frozen=True, slots=True)
class _Form:
    """What holds for every request of one form as long as the view does; ``bindings`` by candidate
    and whether one socket is wanted."""

    ask: Ask
    policy: Policy
    selection: Selection
    grades: Grades
    refused: tuple[Candidate, ...]
    exclusive: bool
    bindings: dict[tuple[str, bool], Binding] = field(default_factory=dict)


def _work_out(ask: Ask, fields: JobFields, policy: Policy, view: ClusterView) -> _Form:
    """For this request and the next ones of its form."""
    if ask.per_task:
        _check_per_task(fields, view)
    selection = policy.selectors.find(ask.selector, (profile for profile, _ in view.types))
    if selection.job_class.groups:
        candidates = template_candidates(ask, fields, selection, view)
    else:
        rule = policy.site.units_per_device_rule
        candidates = find_candidates(ask, fields, selection, view, rule)
    grades = grade(candidates, ask, fields, selection, policy.site.score, policy.speeds)
    refused = tuple(c for c in candidates if c.refused)
    exclusive = fields.exclusive or view.gives_whole_nodes(fields.string("partition"))
    form = _Form(ask, policy, selection, grades, refused, exclusive)
    if len(view.memo) >= _MOST_FORMS:
        view.memo.clear()
    view.memo[fields.form] = form
    return form


def _told_apart(
    done: Rewrite, ask: Ask, fields: JobFields, selection: Selection, view: ClusterView
) -> Rewrite:
    """A template that must wait, with the form in which it could start at once, if there is one."""
    offer = apart(ask, fields, selection, view)
    if offer is None or not offer.free:
        return done
    return replace(done, messages=(*done.messages, apart_text("apart_free", offer, selection)))


def _check_per_task(fields: JobFields, view: ClusterView) -> None:
    """Where units per task would cost the tasks their devices, the request is refused."""
    if not has(view.release, "UNITS_PER_TASK"):
        raise RequestError(text("per_task_release", release=view.release))
    if not fields.batch:
        raise RequestError(text("per_task_batch"))


def _nothing_fits(
    ask: Ask,
    fields: JobFields,
    policy: Policy,
    view: ClusterView,
    refused: Sequence[Candidate],
) -> str:
    """Why, by device type, and the largest request of this sort that would fit."""
    asked = fields.string("partition")
    meant = [c for c in refused if c.refused != text("not_asked")]
    # Of a whole device and its many slices the user is told of the device.
    told = [c for c in meant if not c.profile.slice_of] or meant
    reasons = "; ".join(f"{' + '.join(part.gres for part in c.parts)}: {c.refused}" for c in told)
    selection = policy.selectors.find(ask.selector)
    if selection.job_class.groups:
        offer = apart(ask, fields, selection, view)
        if offer:
            return apart_text("apart", offer, selection, request=ask, why=reasons or "no such node")
    offers = _offers(fields, selection, view)
    return text(
        "nothing",
        request=ask,
        partition=f" in partition {asked}" if asked else "",
        why=(reasons or text("no_device")) + ".",
        fitting=text("fitting", offers=offers) if offers else "",
    )


def _offers(fields: JobFields, selection: Selection, view: ClusterView) -> str:
    """For each allowed device type the most units that one node could give."""
    if selection.job_class.groups:
        return ""
    access = access_of(fields, view.state)
    offers = []
    for profile, pools in view.types:
        units = profile.booked_units
        here = [
            most_within(access, pool, profile, fields.nodes)
            for pool in pools
            if pool.usable and not access.missing(pool.partitions, pool.owners)
        ]
        if units and max(here, default=0) and not selection.allows(profile):
            offers.append(f"compute:{profile.gres.type}:{units * max(here)}")
    return ", ".join(offers)
