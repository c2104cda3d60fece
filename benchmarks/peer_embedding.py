"""Vectors of a peer through `l2g2g evaluate --split --embedding`, beside the scores that `peers.py` gives them.

    python benchmarks/peer_embedding.py cora_ml --peer prone --dim 128 --data-dir DIR

`l2g2g split` writes the split, the peer's own package embeds its training graph in the benchmarks' environment, and the
vectors go through a file to `evaluate`. One JSON line: the test AUC by inner product and cosine from both, which must
be equal. The third way differs on purpose: `peers.py` fits its regression to training edges, which `--embedding` does
not have; it fits one to validation pairs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from l2g2g.graphs.read import read_graph
from l2g2g.graphs.splits import split_links
from peer_process import PEERS, default_environments, run_peer
from peer_scores import score_peer

_TOLERANCE = 1e-6  # the same pairs, scored in double or in single precision


def l2g2g(*words: str) -> dict:
    """The JSON line of a command."""
    done = subprocess.run([sys.executable, "-m", "l2g2g", *words], check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("--peer", choices=[name for name, peer in PEERS.items() if not peer.missing], default="prone")
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--data-dir", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--environments", type=Path, default=default_environments())
    arguments = parser.parse_args()
    path = arguments.data_dir / f"{arguments.dataset}.npz"
    split = split_links(read_graph(path), seed=arguments.seed)
    how = {"dim": arguments.dim, "seed": arguments.seed, "threads": arguments.threads}
    found = run_peer(PEERS[arguments.peer], split.train, environments=arguments.environments, **how)
    with tempfile.TemporaryDirectory() as name:
        pairs, vectors = Path(name) / "split", Path(name) / "vectors.npy"
        l2g2g("split", str(path), "-o", str(pairs), "--seed", str(arguments.seed), "--json")
        np.save(vectors, found.vectors)
        (Path(name) / "vectors.npy.ids.txt").write_text("".join(f"{node}\n" for node in range(len(found.vectors))))
        ours = l2g2g("evaluate", "--split", str(pairs), "--embedding", str(vectors), "--json")
    peers = score_peer(found.vectors, split, seed=arguments.seed)
    inner, cosine = (ours["by_scorer"][way]["auc"] for way in ("inner", "cosine"))
    line = {
        "dataset": arguments.dataset,
        "peer": f"{arguments.peer} ({found.version})",
        "dim": arguments.dim,
        "seed": arguments.seed,
        "evaluate": {name: scores["auc"] for name, scores in ours["by_scorer"].items()},
        "evaluate_chose": ours["scorer"],
        "peers": peers.test_auc_by_way,
        "peers_chose": peers.chosen,
    }
    print(json.dumps(line))
    theirs = peers.test_auc_by_way
    if max(abs(inner - theirs["inner product"]), abs(cosine - theirs["cosine"])) > _TOLERANCE:
        raise SystemExit("evaluate and peers.py do not agree")


if __name__ == "__main__":
    main()
