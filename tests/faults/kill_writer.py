"""Kill a process with SIGKILL at random moments while it writes checkpoints, and read what is left, many times.

python kill_writer.py FOLDER TRIALS SEED [KIND] prints one JSON line: trials, those that loaded, those killed inside a
write. KIND: checkpoint, or artefact: the folder of a finished training.
A child does nothing but save, one checkpoint after the other, so that most moments lie inside a write. It reports
every finished save through a pipe: what loads afterwards must be the last reported one, or the one after it.
"""

import json
import os
import random
import select
import signal
import sys
import time
import warnings
from pathlib import Path

import torch

from l2g2g.runs.artefact import Contents, open_artefact, write_artefact
from l2g2g.training.checkpoint import Checkpoint, CheckpointStore

NUM_VALUES = 2_000_000  # 8 MB


def make(epoch):
    return Checkpoint(epoch, {}, {"epoch": epoch}, {"state": torch.full((NUM_VALUES,), float(epoch))})


class ArtefactStore:
    """Writes and loads artefacts as if they were checkpoints."""

    def __init__(self, folder):
        self.folder = folder

    def save(self, checkpoint):
        rows = checkpoint.tensors["state"].numpy()
        parts = [("state", rows[: NUM_VALUES // 2]), ("state", rows[NUM_VALUES // 2 :])]
        weights = {"epoch": torch.tensor([checkpoint.epoch])}
        write_artefact(self.folder, "embed", Contents(checkpoint.values, weights, lambda: iter(parts)))

    def load(self):
        found = open_artefact(self.folder)
        epoch = int(found.weights["epoch"])
        return Checkpoint(epoch, {}, found.values, {"state": torch.from_numpy(found.arrays["state"])})


STORES = {"checkpoint": CheckpointStore, "artefact": ArtefactStore}


def write_forever(store, report):
    epoch = 0
    while True:
        epoch += 1
        store.save(make(epoch))
        os.write(report, f"{epoch}\n".encode())


def last_report(pipe, seconds):
    """Wait for the first report, then a random while; return the last one."""
    text, end = b"", None
    while end is None or time.monotonic() < end:
        if select.select([pipe], [], [], 0.0005)[0]:
            text += os.read(pipe, 1000)
            end = end or time.monotonic() + seconds
    return text


def trial(folder, moment, kind):
    store = STORES[kind](folder)
    pipe, report = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(pipe)
        write_forever(store, report)
    os.close(report)
    text = last_report(pipe, moment)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while block := os.read(pipe, 1000):
        text += block
    os.close(pipe)
    reported = int(text.split()[-1])
    inside = any(folder.glob(".epoch-*")) or any(folder.glob("trainings/.embed*"))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a fall-back would be a warning: nothing half written may have the name
            found = store.load()
    except Exception as error:
        print(f"{folder.name}: {type(error).__name__}: {error}", file=sys.stderr)
        return False, inside
    whole = bool((found.tensors["state"] == found.epoch).all()) and found.values["epoch"] == found.epoch
    return whole and reported <= found.epoch <= reported + 1, inside


def main(folder, num_trials, seed, kind="checkpoint"):
    torch.set_num_threads(1)  # a process with threads cannot be forked safely
    generator = random.Random(seed)
    results = [trial(Path(folder) / str(number), generator.uniform(0, 0.15), kind) for number in range(num_trials)]
    print(
        json.dumps({"trials": num_trials, "loaded": sum(r[0] for r in results), "inside": sum(r[1] for r in results)})
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])
