"""Claims about what the paper prints: its tables against its own statements."""

from __future__ import annotations

from l2g2g.graphs.datasets import list_datasets
from l2g2g.paper.contenders import CONTENDERS
from l2g2g.paper.evidence import NOTHING, Claim, Evidence, Finding
from l2g2g.paper.paper_numbers import SCORES, SIZES

_SAME = 0.05  # of a number of edges


def _table_is_auc(evidence: Evidence) -> Finding:
    auc, ap = SCORES["auc"], SCORES["ap"]
    methods = list(next(iter(auc.values())))
    same = [name for name in methods if all(own[name] == ap[dataset][name] for dataset, own in auc.items())]
    labels = ", ".join(CONTENDERS[name].label for name in same)
    return Finding(f"columns that are the same in the AUC and the AP table: {labels or 'none'}", {"": not same})


def _differs(name: str, num_edges: int) -> bool:
    return abs(num_edges / SIZES[name].num_edges - 1) > _SAME


def _block_models(evidence: Evidence) -> Finding:
    """Expected edges of the stated models; where a name stands for another model, NAME-stated is the stated one."""
    expected = {info.name: info.num_edges for info in list_datasets() if info.kind == "block model"}
    stated = {name: expected.get(f"{name}-stated", expected[name]) or 0 for name in SIZES if name in expected}
    words = [f"{name} {count:,} against {SIZES[name].num_edges:,}" for name, count in stated.items()]
    differ = [name for name, count in stated.items() if _differs(name, count)]
    text = (
        f"edges expected of the stated model against printed: {', '.join(words)}; differ: {', '.join(differ) or 'none'}"
    )
    return Finding(text, {"": not differ})


def _real_graphs(evidence: Evidence) -> Finding:
    generated = {info.name for info in list_datasets() if info.kind != "file"}
    counts = {row["cell"]["dataset"]: row["num_edges"] for row in evidence.of("datasets") if "error" not in row}
    real = {name: count for name, count in counts.items() if name in SIZES and name not in generated}
    words = [f"{name} {count:,} against {SIZES[name].num_edges:,}" for name, count in real.items()]
    differ = [name for name, count in real.items() if _differs(name, count)]
    return Finding(f"undirected edges against printed: {', '.join(words)}", {"": not differ}) if real else NOTHING


CLAIMS = [
    Claim("The AUC table holds AUC.", "Table 3", "no column is the same in both tables", _table_is_auc),
    Claim(
        "The block models have the stated parameters and Table 2's edges.",
        "Table 2",
        "within 5 % on all block models",
        _block_models,
    ),
    Claim(
        "M of Table 2 is the number of undirected edges of the real graphs.",
        "Notations, Table 2",
        "within 5 % on all real graphs",
        _real_graphs,
    ),
]
