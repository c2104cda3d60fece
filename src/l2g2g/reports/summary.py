"""Summary of a run in sentences and headline figures."""

from __future__ import annotations

import numpy as np

from l2g2g.evaluation.intervals import Interval
from l2g2g.evaluation.separation import Separation
from l2g2g.runs.record import RunRecord

_KINDS = {
    "test": "These pairs were held out: training has not seen them.",
    "paper": (
        "These are the pairs of the paper's evaluation, a self-loop for every node among them; they are not comparable "
        "with held-out links."
    ),
    "validation": (
        "These pairs were held out and decided when training stopped, so new pairs would score slightly lower; "
        "l2g2g evaluate measures that. The final vectors use all edges."
    ),
    "training": (
        "The model has learned from these edges: this says how well the vectors fit the graph, not how well they "
        "predict. l2g2g evaluate measures that."
    ),
}


def summarise(record: RunRecord) -> list[str]:
    """Sentences on accuracy, confidence, time, cleaning of the input and patches."""
    if not record.is_run:
        return _describe_file(record)
    said = [_describe_graph(record), *_describe_choice(record), *_describe_accuracy(record), _describe_time(record)]
    said += [_describe_cleaning(record), *_describe_patches(record)]
    if record.history.recoveries:
        said.append(
            f"Training diverged and restarted from its last good state {record.history.recoveries} times with smaller "
            "steps; a lower learning rate (--lr) may give better results."
        )
    return said


def cards(record: RunRecord) -> list[tuple[str, str]]:
    """(value, label) of the headline figures."""
    found = []
    separation = record.separation
    if separation is not None:
        for title, value in (("AUC", separation.auc), ("average precision", separation.average_precision)):
            found.append(
                (percent(value.value), f"{title}, 95 % interval {percent(value.low)} to {percent(value.high)}")
            )
    found.append((f"{record.graph.num_nodes:,}", "nodes"))
    if record.is_run or record.graph.num_edges:
        found.append((f"{record.graph.num_edges:,}", "edges"))
    if not record.is_run:
        found.append((f"{record.vectors.shape[1]:,}", "dimensions"))
    total = record.row.get("seconds", {}).get("total")
    if total is not None:
        found.append((duration(float(total)), f"in total, {record.history.num_epochs} epochs"))
    return found


def explain_pairs(separation: Separation) -> str:
    """Number and kind of the scored pairs."""
    return f"{separation.num_pairs:,} pairs, as many edges as non-edges. {_KINDS[separation.kind]}"


def percent(share: float) -> str:
    """A share as a percentage with two decimals."""
    return f"{100 * share:.2f} %"


def duration(seconds: float) -> str:
    """Seconds in seconds, minutes or hours.

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


def _describe_graph(record: RunRecord) -> str:
    graph, settings = record.graph, record.settings
    features = f" and {graph.num_features:,} features" if graph.num_features else ", without features"
    kind = "directed " if graph.directed else "weighted " if graph.weighted else ""
    return (
        f"{graph.name} is a {kind}graph of {graph.num_nodes:,} nodes with {graph.num_edges:,} edges{features}. Every "
        f"node has a {record.vectors.shape[1]}-dimensional vector by {settings.get('method', '?')} "
        f"(preset {settings.get('preset', '?')}, seed {settings.get('seed', '?')})."
    )


def _describe_file(record: RunRecord) -> list[str]:
    lengths = np.linalg.norm(record.vectors.astype(np.float64), axis=1)
    low, middle, high = np.quantile(lengths, [0.05, 0.5, 0.95])
    said = [
        f"{record.graph.name} holds {record.graph.num_nodes:,} vectors of {record.vectors.shape[1]:,} dimensions; "
        f"their length is {middle:.3g} in the middle, and within {low:.3g} to {high:.3g} for nine in ten."
    ]
    if record.edges is None:
        said.append(
            "How well they tell edges is not known from the vectors alone; l2g2g evaluate --split DIR --embedding FILE "
            "measures it."
        )
    num_zero = int((lengths == 0).sum())
    if num_zero:
        said.append(f"{num_zero:,} vectors are zero: they have no direction, and no near nodes by cosine.")
    return said


def _describe_choice(record: RunRecord) -> list[str]:
    if not record.is_spectral:
        return []
    scores = record.row["chosen"].get("validation_auc", {})
    known = "spectral" in scores and "trained" in scores
    how = f": AUC {percent(scores['spectral'])} against {percent(scores['trained'])}" if known else ""
    return [f"The vectors are eigenvectors of the graph, which validation pairs preferred to the trained ones{how}."]


def _describe_accuracy(record: RunRecord) -> list[str]:
    separation = record.separation
    if separation is None:
        return ["Accuracy: no pairs were scored in this run; l2g2g evaluate holds some out and scores them."]
    auc, precision = separation.auc, separation.average_precision
    said = [
        f"Accuracy: of an edge and a non-edge, the edge has the higher score {100 * auc.value:.1f} times "
        f"in 100 (AUC; 50 is guessing). Average precision is {percent(precision.value)}. {_KINDS[separation.kind]}",
        f"Confidence: with 95 % confidence the AUC of such pairs lies within {_range(auc)} and their average precision "
        f"within {_range(precision)}; {separation.num_pairs:,} pairs were scored. Other seeds can differ by more.",
    ]
    best = record.row.get("best_auc")
    if best is not None:
        said.append(f"The best possible AUC under the model that generated this graph is {percent(float(best))}.")
    return said


def _range(interval: Interval) -> str:
    return f"{percent(interval.low)} to {percent(interval.high)}"


def _describe_time(record: RunRecord) -> str:
    history, seconds = record.history, record.row.get("seconds", {})
    parts = [f"Time: {history.num_epochs} epochs"]
    if "total" in seconds:
        parts[0] = f"Time: {duration(float(seconds['total']))} in total for {history.num_epochs} epochs"
    if history.epoch_seconds:
        parts.append(f"{1000 * float(np.median(history.epoch_seconds)):,.3g} ms each")
    if 0 < history.best_epoch < history.num_epochs and not record.is_spectral:
        parts.append(f"the best of them epoch {history.best_epoch}, which was kept")
    if history.resumed_from_epoch:
        parts.append(f"resumed from epoch {history.resumed_from_epoch}")
    memory = record.row.get("peak_memory_bytes")
    end = f" Peak memory: {float(memory) / 2**30:.2f} GiB." if memory else ""
    return ", ".join(parts) + "." + end


def _describe_cleaning(record: RunRecord) -> str:
    cleaned = record.graph.cleaning.describe()
    return f"Cleaned from the input: {cleaned}." if cleaned else "The input needed no cleaning."


def _describe_patches(record: RunRecord) -> list[str]:
    patches = record.patches
    if not record.has_patches:
        return []
    smallest, largest = min(patches.sizes), max(patches.sizes)
    sizes = f"{smallest:,}" if smallest == largest else f"{smallest:,} to {largest:,}"
    said = f"The graph was partitioned into {len(patches.sizes)} patches of {sizes} nodes"
    if not patches.pairs:
        return [f"{said}."]
    num_pairs = len(patches.pairs)
    said += f"; {num_pairs:,} pairs overlap." if num_pairs > 1 else "; 1 pair overlaps."
    if patches.pair_residuals and record.is_aligned:
        length = float(np.sqrt(np.square(record.vectors, dtype=np.float64).sum(axis=1).mean()))
        said += (
            f" Two patches place a node they share {patches.after:.3g} apart on average, "
            f"{100 * patches.after / max(length, 1e-30):.0f} % of the length of a vector"
        )
        said += f" ({patches.before:.3g} before alignment)." if patches.before > 1.001 * patches.after else "."
    if patches.final_pass:
        said += " The final vectors come from one pass over the whole graph, without patches."
    if patches.num_joined:
        said += f" {patches.num_joined} overlaps were added between patches that no edge connects."
    return [said]
