"""Seconds per epoch of ours by wall time: the difference of a long and a short run, divided by their epochs."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch

from l2g2g.config import Config, make_config
from l2g2g.graphs.graph import Features, Graph
from l2g2g.graphs.splits import LinkSplit
from l2g2g.models.inputs import InputMap, InputSource
from l2g2g.models.structure import StructureMap
from l2g2g.patches.overlap import PatchSet
from l2g2g.runs import candidate, patches
from l2g2g.runs.preparation import FeatureCounts, count_features
from l2g2g.runs.run import Run
from l2g2g.runs.training import run_split
from l2g2g.training.rows import TrainingRows
from l2g2g.training.whole_pass import InputRows, RowSource

SHORT = 2
LEAST_SECONDS = 2.0  # what a long run should last longer than a short one
MOST_EPOCHS = 1000
NUM_PATCHES = 10


class Ours:
    """Runs on one split. Patches and features of a setting are made once: they are no part of an epoch."""

    def __init__(self, split: LinkSplit, threads: int = 0, clock: Callable[[], float] = time.perf_counter) -> None:
        self.split, self.threads, self.clock = split, threads, clock
        self._patches: dict[tuple, PatchSet] = {}
        self._inputs: dict[tuple, InputMap] = {}
        self._epochs: dict[tuple, int] = {}

    def config(self, method: str, preset: str, **options: Any) -> Config:
        """A preset without validation, so that nothing but epochs is measured, and with fresh negatives."""
        patches = NUM_PATCHES if method == "l2g2g" else None
        shared: dict[str, Any] = {"patches": patches, "negatives": "fresh", "patience": 0, "threads": self.threads}
        return make_config(method, preset, **{**shared, **options})

    def seconds_per_epoch(self, method: str, preset: str) -> float:
        """One measurement; the first one of a setting also compiles, and finds how many epochs are enough."""
        key = (method, preset)
        if key not in self._epochs:
            self._run(self.config(method, preset, epochs=SHORT))
            run = self._run(self.config(method, preset, epochs=2 * SHORT))
            guess = max(min(run.trained.history.epoch_seconds), 1e-6)
            tens = -(-LEAST_SECONDS // (10 * guess))  # whole rounds of the alignment, which comes every ten epochs
            self._epochs[key] = int(min(MOST_EPOCHS, max(10, 10 * tens)))
        more = self._epochs[key]
        long, short = (self._time(self.config(method, preset, epochs=count)) for count in (SHORT + more, SHORT))
        return (long - short) / more

    def patch_set(self, config: Config) -> PatchSet:
        """The patches of a setting."""
        with self._kept():
            return patches.cut(self.split.train, config)

    def features(self, config: Config) -> Features:
        """What the encoder sees."""
        with self._kept():
            train = self.split.train
            inputs = candidate.find_inputs(RowSource(TrainingRows(train)), count_features(train), config)
            return InputRows(train, inputs).whole

    def threads_used(self) -> int:
        """Threads of the last run."""
        return torch.get_num_threads()

    def _time(self, config: Config) -> float:
        started = self.clock()
        self._run(config)
        return self.clock() - started

    def _run(self, config: Config) -> Run:
        with self._kept(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # two epochs align badly, and say so
            return run_split(self.split, config)

    @contextmanager
    def _kept(self) -> Iterator[None]:
        cut, find_inputs = patches.cut, candidate.find_inputs

        def cut_once(graph: Graph, config: Config) -> PatchSet:
            key = (config.method, config.partition, config.patches, config.seed)
            if key not in self._patches:
                self._patches[key] = cut(graph, config)
            return self._patches[key]

        def find_once(
            source: InputSource, counts: FeatureCounts | None, config: Config, structure: StructureMap | None = None
        ) -> InputMap:
            key = (config.feature_scaling, config.feature_width, config.structure, config.structure_width, config.seed)
            if key not in self._inputs:
                self._inputs[key] = find_inputs(source, counts, config, structure)
            return self._inputs[key]

        with patch.object(patches, "cut", cut_once), patch.object(candidate, "find_inputs", find_once):
            yield
