"""Claims about growth: the complexity table, and the memory of the decoder."""

from __future__ import annotations

import math

import numpy as np

from l2g2g.paper import complexity
from l2g2g.paper.contenders import CONTENDERS, contender_of
from l2g2g.paper.evidence import (
    CANNOT_BE_SAID,
    NOTHING,
    Claim,
    Evidence,
    Finding,
    count_answers,
    list_values,
    on_most,
)
from l2g2g.paper.results import Row, pick
from l2g2g.paper.timing import timing_options

_METHODS = ("gae", "fastgae", "gae+l2g", "l2g2g")
_SCORE_BYTES = 4
_GPU_MEMORY = 32e9  # bytes of the largest V100
_STRAIGHT = 0.9  # of the variance
_SHARP = 0.5  # of an exponent


def _times(evidence: Evidence, name: str, contender: str) -> dict[int, float]:
    """Seconds of an epoch by what a sweep varies."""
    (sweep,) = [sweep for sweep in complexity.sweeps(evidence.quick) if sweep.name == name]
    return complexity.times_of(evidence.of("complexity"), sweep, contender, evidence.quick)


def _fit(evidence: Evidence, name: str, contender: str) -> complexity.Fit | None:
    times = _times(evidence, name, contender)
    return complexity.fit_exponent(times, times.values())


def _linear_in_size(evidence: Evidence) -> Finding:
    fits = {name: _fit(evidence, "n", name) for name in _METHODS}
    found = {name: fit for name, fit in fits.items() if fit is not None}
    if not found:
        return NOTHING
    text = "exponent in N with M / N held: " + ", ".join(
        f"{CONTENDERS[name].label} {fit.exponent:.2f} ± {fit.error:.2f}" for name, fit in found.items()
    )
    if len(found) < len(_METHODS) or any(math.isinf(fit.error) for fit in found.values()):
        return Finding(f"{text}; too few points or methods", word=CANNOT_BE_SAID)
    return Finding(text, {"": all(fit.exponent - 2 * fit.error <= 1 for fit in found.values())})


def _quadratic_with_all_pairs(evidence: Evidence) -> Finding:
    fit, times = _fit(evidence, "pairs", "gae"), _times(evidence, "pairs", "gae")
    if fit is None:
        return NOTHING
    text = f"exponent in N, all pairs decoded, {min(times):,} to {max(times):,} nodes: GAE {fit.exponent:.2f}"
    text += f" ± {fit.error:.2f}"
    if 2 * fit.error > _SHARP:
        return Finding(f"{text}, too wide", word=CANNOT_BE_SAID)
    return Finding(text, {"": bool(abs(fit.exponent - 2) <= 2 * fit.error)})


def _patches_help_the_decoder(evidence: Evidence) -> Finding:
    times = {name: _times(evidence, "pairs", name) for name in ("gae", "gae+l2g", "l2g2g")}
    common = set.intersection(*map(set, times.values()))
    if not common:
        return NOTHING
    largest = max(common)
    shown = {CONTENDERS[name].label: 1000 * own[largest] for name, own in times.items()}
    text = f"epoch in ms, all pairs decoded, {largest:,} nodes: {list_values(shown, '.1f')}"
    return Finding(text, {"": max(times["gae+l2g"][largest], times["l2g2g"][largest]) < times["gae"][largest]})


def _gap_linear_in_patches(evidence: Evidence) -> Finding:
    ours, theirs = (_times(evidence, "k", name) for name in ("l2g2g", "gae+l2g"))
    counts = sorted(set(ours) & set(theirs))
    if not counts:
        return NOTHING
    gaps = [1000 * (ours[count] - theirs[count]) for count in counts]
    shown = list_values({f"k = {count}:": gap for count, gap in zip(counts, gaps, strict=True)}, "+.1f")
    text = f"epoch of L2G2G minus GAE+L2G in ms: {shown}"
    if len(counts) < 3:
        return Finding(f"{text}; too few points", word=CANNOT_BE_SAID)
    slope, start = np.polyfit(counts, gaps, 1)
    residual = np.asarray(gaps) - start - slope * np.asarray(counts)
    spread = float(np.var(gaps))
    straight = 1 - float(np.var(residual)) / spread if spread > 0 else 0.0
    text += f"; slope {slope:+.2f} ms a patch, R² {straight:.2f}"
    return Finding(text, {"": bool(slope > 0 and gaps[-1] > 0 and straight >= _STRAIGHT)})


# --- memory ---------------------------------------------------------------------------------------------


def _gae_runs(evidence: Evidence) -> list[Row]:
    options = timing_options(evidence.quick)
    return pick(evidence.of("training-time"), contender="gae", options=options)


def _all_scores(evidence: Evidence) -> Finding:
    """What a decoder of all pairs must hold."""
    rows = sorted(_gae_runs(evidence), key=lambda row: row["num_nodes"])
    if not rows:
        return NOTHING
    needed = {row["cell"]["dataset"]: _SCORE_BYTES * row["num_nodes"] ** 2 / 1e9 for row in rows}
    answers = [1e9 * size > _GPU_MEMORY for size in needed.values()]
    name = rows[-1]["cell"]["dataset"]
    peak = max(row["peak_memory_bytes"] for row in rows if row["cell"]["dataset"] == name) / 1e9
    text = f"GB of N² scores: {count_answers(answers, list_values(needed, ',.2f'))}"
    return Finding(f"{text}; with sampled pairs all of {name} took at most {peak:.1f} GB", {"": on_most(answers)})


def _sampled_pairs(evidence: Evidence) -> Finding:
    """Whether GAE ran out of memory although it samples pairs."""
    rows, options = _gae_runs(evidence), timing_options(evidence.quick)
    failed = [
        row["cell"]["dataset"]
        for row in evidence.of("training-time")
        if "memory" in row.get("error", "").lower()
        and contender_of(row) == "gae"
        and row["cell"].get("options") == options
    ]
    if not rows and not failed:
        return NOTHING
    text = f"out of memory: {', '.join(sorted(set(failed))) or 'on no graph'}"
    if rows:
        largest, graphs = max(rows, key=lambda row: row["num_edges"]), {row["cell"]["dataset"] for row in rows}
        size = f"{largest['num_edges']:,} edges, at most {largest['peak_memory_bytes'] / 1e9:.1f} GB"
        text += f"; finished on {len(graphs)} graphs, the largest {largest['cell']['dataset']} ({size})"
    return Finding(text, {"": bool(failed)})


CLAIMS = [
    Claim(
        "All four sparse implementations are linear in N.",
        "Table 1",
        "the exponent minus two standard errors is at most 1 for all four methods",
        _linear_in_size,
    ),
    Claim(
        "The decoder of GAE scales as N² when it decodes all pairs.",
        "Preliminaries, Table 1",
        f"2 lies within two standard errors of GAE's exponent, and these are at most {_SHARP}",
        _quadratic_with_all_pairs,
    ),
    Claim(
        "In the general case more patches reduce the cost of the decoders.",
        "Complexity analysis",
        "with all pairs decoded, an epoch of GAE+L2G and of L2G2G (ten patches) is shorter than GAE's on the largest "
        "graph",
        _patches_help_the_decoder,
    ),
    Claim(
        "With more patches the gap of L2G2G to GAE+L2G in time grows linearly.",
        "Complexity analysis",
        f"a line through the gaps rises and explains {100 * _STRAIGHT:.0f} % of their variance or more, and the last "
        "gap is above 0",
        _gap_linear_in_patches,
    ),
    Claim(
        "GAEs store very large matrices in the decoding step: all pairs.",
        "Experiments",
        f"N² scores of {_SCORE_BYTES} bytes exceed {_GPU_MEMORY / 1e9:.0f} GB, the largest V100, on more than half of "
        "the graphs; stand-ins count: they have the size",
        _all_scores,
    ),
    Claim(
        "GAEs suffer from memory issues: with sampled pairs, as in the PyTorch column.",
        "Experiments",
        "GAE ran out of memory on one graph or more; stand-ins count: they have the size",
        _sampled_pairs,
    ),
]
