"""Run words: what there is to say about a run, in sentences for people who did not run it."""

from __future__ import annotations

import numpy as np

from l2g2g.evaluation.intervals import Interval
from l2g2g.evaluation.separation import Separation
from l2g2g.runs.record import RunRecord

_KINDS = {
    "test": "These pairs were held out: nothing in training has seen them.",
    "paper": (
        "These are the pairs of the paper's evaluation, a self-loop for every node among them; they are not comparable "
        "with held-out links."
    ),
    "validation": (
        "These pairs were held back and decided when training stopped, so new pairs would come out slightly lower; "
        "l2g2g evaluate measures that. The final vectors use all edges."
    ),
    "training": (
        "The model has learned from these edges: this says how well the vectors fit the graph, not how well they "
        "predict. l2g2g evaluate measures that."
    ),
}


def summarise(record: RunRecord) -> list[str]:
    """How good, how sure, how long, what was cleaned, and what the patches did: a sentence or two each."""
    said = [_say_what(record), *_say_how_good(record), _say_how_long(record), _say_cleaned(record)]
    said += _say_patches(record)
    if record.history.recoveries:
        said.append(
            f"Training went back to its last good state {record.history.recoveries} times and took smaller steps; "
            f"a lower learning rate (--lr) may do better."
        )
    return said


def cards(record: RunRecord) -> list[tuple[str, str]]:
    """(figure, what it is) of what people look for first."""
    found = []
    separation = record.separation
    if separation is not None:
        for title, value in (("AUC", separation.auc), ("average precision", separation.average_precision)):
            found.append((percent(value.value), f"{title}, 95 % within {percent(value.low)} to {percent(value.high)}"))
    found += [(f"{record.graph.num_nodes:,}", "nodes"), (f"{record.graph.num_edges:,}", "edges")]
    total = record.row.get("seconds", {}).get("total")
    if total is not None:
        found.append((duration(float(total)), f"in all, {record.history.num_epochs} epochs"))
    return found


def explain_pairs(separation: Separation) -> str:
    """What the scored pairs were to the model."""
    return f"{separation.num_pairs:,} pairs, as many edges as non-edges. {_KINDS[separation.kind]}"


def percent(share: float) -> str:
    """A share as a percentage with as many digits as tell good from very good."""
    return f"{100 * share:.2f} %"


def duration(seconds: float) -> str:
    """Seconds as people say them.

    Example:
        >>> duration(0.4), duration(75), duration(7340)
        ('0.4 s', '1 min 15 s', '2 h 2 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def _say_what(record: RunRecord) -> str:
    graph, settings = record.graph, record.settings
    features = f" and {graph.num_features:,} features" if graph.num_features else ", without features"
    kind = "directed " if graph.directed else "weighted " if graph.weighted else ""
    return (
        f"{graph.name} is a {kind}graph of {graph.num_nodes:,} nodes with {graph.num_edges:,} edges{features}. Every "
        f"node has a vector of {record.vectors.shape[1]} numbers, learned by {settings.get('method', '?')} "
        f"(preset {settings.get('preset', '?')}, seed {settings.get('seed', '?')})."
    )


def _say_how_good(record: RunRecord) -> list[str]:
    separation = record.separation
    if separation is None:
        return ["How good: no pairs were scored in this run; l2g2g evaluate holds some out and scores them."]
    auc, precision = separation.auc, separation.average_precision
    said = [
        f"How good: of an edge and a pair that is no edge, the scores tell which is which {100 * auc.value:.1f} times "
        f"in 100 (AUC; 50 is guessing). Average precision is {percent(precision.value)}. {_KINDS[separation.kind]}",
        f"How sure: with 95 % confidence the AUC of such pairs lies within {_range(auc)} and their average precision "
        f"within {_range(precision)}; {separation.num_pairs:,} pairs were scored. Other seeds can differ by more.",
    ]
    best = record.row.get("best_auc")
    if best is not None:
        said.append(f"The model that generated this graph allows an AUC of {percent(float(best))} at best.")
    return said


def _range(interval: Interval) -> str:
    return f"{percent(interval.low)} to {percent(interval.high)}"


def _say_how_long(record: RunRecord) -> str:
    history, seconds = record.history, record.row.get("seconds", {})
    parts = [f"How long: {history.num_epochs} epochs"]
    if "total" in seconds:
        parts[0] = f"How long: {duration(float(seconds['total']))} in all for {history.num_epochs} epochs"
    if history.epoch_seconds:
        parts.append(f"{1000 * float(np.median(history.epoch_seconds)):,.3g} ms each")
    if 0 < history.best_epoch < history.num_epochs:
        parts.append(f"the best of them number {history.best_epoch}, which is the one that was kept")
    if history.resumed_from_epoch:
        parts.append(f"resumed from epoch {history.resumed_from_epoch}")
    memory = record.row.get("peak_memory_bytes")
    end = f" Memory at its highest: {float(memory) / 2**30:.2f} GiB." if memory else ""
    return ", ".join(parts) + "." + end


def _say_cleaned(record: RunRecord) -> str:
    cleaned = record.graph.cleaning.describe()
    return f"Cleaned on the way in: {cleaned}." if cleaned else "Nothing had to be cleaned from the input."


def _say_patches(record: RunRecord) -> list[str]:
    patches = record.patches
    if len(patches.sizes) == 1:
        return ["The graph was not cut: the whole of it is one patch."]
    said = (
        f"The graph was cut into {len(patches.sizes)} patches of {min(patches.sizes):,} to {max(patches.sizes):,} nodes"
    )
    if not patches.pairs:
        return [f"{said}."]
    said += f", of which {len(patches.pairs)} pairs overlap."
    if patches.pair_residuals:
        length = float(np.sqrt(np.square(record.vectors, dtype=np.float64).sum(axis=1).mean()))
        said += (
            f" Two patches place a node they share {patches.after:.3g} apart on average, "
            f"{100 * patches.after / max(length, 1e-30):.0f} % of the length of a vector"
        )
        said += f" ({patches.before:.3g} before alignment)." if patches.before > 1.001 * patches.after else "."
    if patches.final_pass:
        said += " The final vectors come from one pass over the whole graph, in which patches have no part."
    if patches.num_joined:
        said += f" {patches.num_joined} joins were made between patches that no edge joins."
    return [said]
