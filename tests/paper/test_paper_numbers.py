"""The paper's numbers are those of the paper, read from its source where that is at hand."""

import re
from pathlib import Path

import pytest

from l2g2g.paper.results import SCORES, SIZES, printed_score

PAPER = Path(__file__).parents[2].parent / "shared" / "paper" / "l2g2g.tex"
needs_paper = pytest.mark.skipif(not PAPER.is_file(), reason=f"the paper's source {PAPER} is missing")
ROWS = {
    "Cora ml": "cora-ml",
    "SBM-small": "sbm-small",
    "Cora": "cora",
    "SBM-Large-sparse": "sbm-large-sparse",
    "SBM-Large": "sbm-large",
    "SBM-Large-dense": "sbm-large-dense",
    "Reddit": "reddit",
    "Yelp": "yelp",
}


@needs_paper
@pytest.mark.parametrize(("measure", "number"), [("auc", 0), ("ap", 1)])
def test_table_3(measure, number):
    source = PAPER.read_text()
    tables = re.findall(r"Average Performance On  Different Datasets(.*?)\\end\{tabular\}", source, re.S)
    found = {}
    for line in tables[number].split("\\\\"):
        name = line.strip().removeprefix("\\hline").strip().split("&")[0].strip()
        scores = re.findall(r"(\d+\.\d+) ± (\d+\.\d+)", line)
        if scores:
            found[ROWS[name]] = [(float(mean), float(spread)) for mean, spread in scores]
    assert found == {name: list(row.values()) for name, row in SCORES[measure].items()}
    assert [list(row) for row in SCORES[measure].values()] == [["gae", "fastgae", "gae+l2g", "l2g2g"]] * 8


@needs_paper
def test_table_2():
    source = PAPER.read_text()
    table = source[source.index("Stochastic block model}") : source.index("label{tab:dataset}")]
    rows = re.findall(r"\$[NMF]\$.*?\\\\", table, re.S)
    lines = [[int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", row)] for row in rows]
    order = ["sbm-small", "sbm-large-sparse", "sbm-large", "sbm-large-dense", "cora-ml", "cora", "reddit", "yelp"]
    expected = [[getattr(SIZES[name], field) for name in order] for field in ("num_nodes", "num_edges", "num_features")]
    assert lines == expected


def test_what_the_paper_does_not_have():
    assert printed_score("auc", "pubmed", "gae") is None
    assert printed_score("auc", "cora-ml", "default") is None
    assert printed_score("ap", "yelp", "fastgae") == (73.79, 6.54)
