"""Config: every setting of a run in one place, the presets, and the checks that need no graph."""

from __future__ import annotations

import difflib
import re
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

from l2g2g.errors import InputError
from l2g2g.models.decoders import DECODERS
from l2g2g.models.encoders import ENCODERS
from l2g2g.training.loop import AlignGradient
from l2g2g.training.methods import METHODS, Method, PairChoice
from l2g2g.training.objective import Scope

Preset = Literal["default", "paper", "accurate"]
_MOST_AUTO_NODES = 200_000
MaskBy = Literal["edges", "nodes", "clusters", "patches"]


@dataclass(frozen=True)
class Config:
    """Settings of a run. Each reading of the paper is a named option.

    Attributes:
        method: gae, fastgae, gae+l2g, l2g2g, vgae or vl2g2g.
        dim, hidden, layers: Width of the embedding and of the hidden layers, number of layers.
        encoder: gcn, sage (GraphSAGE: the mean of the neighbours and the node itself, each with weights of its own), or
            linear (no hidden layer: Â^layers X W).
        activation: relu or elu, after every layer but the last.
        residual: Add the hidden layers to the vector; hidden may then not be wider than dim.
        patches: Number of patches for the methods that use them; None chooses from the size of the graph.
        partition: metis, fennel or random.
        fennel_passes: How often FENNEL moves every node; once as published, more often keeps more edges.
        min_overlap, target_overlap: Nodes that joined patches share; None for dim + 1 and 2 (dim + 1).
        patch_degree: Mean degree of the patch graph.
        share_encoder: One encoder for all patches; None for what the method says.
        together: Train all patches as one block, or patch by patch (the same result in less memory).
        refresh_every: Epochs between two alignments in training.
        rotate, translate, scale: Parts of the alignment that are applied. None for both rotations and translations
            with separate encoders, and for neither with a shared one: its patches agree by themselves, and
            rotations estimated from small overlaps cost accuracy (docs/accuracy.md).
        align_gradient: held: the alignment is a constant between refreshes; through: it is solved anew in every
            epoch, and the gradient passes through its rotations and translations.
        negatives: fresh every epoch, or fixed.
        negative_sampling: The far end of a non-edge is drawn uniformly, or by degree^0.75.
        negatives_per_edge: Non-edges drawn for every undirected edge. The authors count an edge in both
            directions and so draw two.
        pairs: sampled or all pairs in the loss; None for what the method says.
        sample_size: Nodes of FastGAE's subgraph: a number, "sqrt" (the paper's text) or "authors" (their code).
        scope: Pairs of the loss: inside each patch (the paper), or global, in one patch or in two, on the aligned
            and averaged embedding; None for what the method allows.
        mask: Fraction of the edges hidden from the encoder each epoch and then predicted; 0 predicts what it sees.
        mask_by: Which edges are hidden: random edges; those between random groups of nodes (patches drawn anew every
            epoch); those between random groups of METIS clusters, ten for every patch (patches regrouped); or those
            between the patches themselves, which no encoder ever sees. With g groups 1 - 1/g of the edges
            between nodes, or between clusters, are hidden; g is what comes nearest to `mask`, at least 2.
        score_fraction: Fraction of the edges to predict that is scored each epoch, with as many non-edges; None for
            as many as `scored_fraction` says.
        feature_dropout: Fraction of the feature entries dropped each epoch; None chooses by how many a row has.
        skip: A direct way for a node's own features to its vector.
        assembly: mean of the aligned patches (the paper), or whole: a last pass of the shared encoder over the
            whole graph; None for whole where the encoder is shared.
        feature_scaling: centred (rows of length 1, less their mean), unit, raw, or binary (1 for every positive
            entry of sparse features: what PyG's loaders of the citation graphs do, and so what the authors trained on).
        feature_width: Columns to which features are compressed (principal directions, half evened out); 0 leaves them
            as they are. Not applied to features with few entries in a row, nor where the graph has too few edges to
            learn from without dropping most of the entries (docs/accuracy.md).
        feature_storage: In what dense features are held in training: float32, or float16 or bfloat16 in half of it.
        weighted_loss: An edge counts in the loss by its weight (propagation always uses weights).
        directed: Edges have a direction, which the loss and the evaluation keep; the encoder sees them joined.
        structure: What is made of the structure alone: none; blend: eigenvectors as columns beside the features (a
            graph without features always reads them); spectral: the vectors are eigenvectors, nothing is trained; auto:
            the validation pairs decide, where there are some; none beside the features of more than 200,000 nodes,
            where it would cost memory and time.
        structure_width: Columns made from the structure.
        learn_bias: A learned bias in the inner-product decoder; the other decoders always have one.
        decoder: inner (the inner product), cosine or distance (with a learned scale), product (a small learned network
            on the elementwise product), or asymmetric (a vector is [source | target]; for directed graphs, and
            their default).
        epochs, lr: Length and step of training (Adam). epochs None: 300 at a constant rate, where validation ends
            training; 100 with a falling one, 220 where a graph has so few edges that they cost little.
        schedule: constant rate, or linear: up over a tenth of the epochs, then down to nothing.
        patience: Validations without improvement before training stops; 0 to train all epochs.
        validate_every: Epochs between two validations.
        seed, device, threads: Randomness, where to compute, CPU threads (0: all cores, or one
            for a graph too small to gain from more).
        backend: Who computes on the CPU: native (the compiled core), torch (the plain reference), or auto: native where
            it is built. Other devices always use torch.
        memory: Bytes of memory that the process may take; a graph that needs more is kept on disk. None: no limit.
    """

    method: str = "l2g2g"
    preset: str = "default"
    dim: int = 16
    hidden: int = 32
    layers: int = 2
    encoder: str = "gcn"
    activation: Literal["relu", "elu"] = "relu"
    residual: bool = False
    patches: int | None = None
    partition: Literal["metis", "fennel", "random"] = "metis"
    fennel_passes: int = 1
    min_overlap: int | None = None
    target_overlap: int | None = None
    patch_degree: float = 4.0
    share_encoder: bool | None = None
    together: bool = True
    refresh_every: int = 10
    rotate: bool | None = None
    translate: bool | None = None
    scale: bool = False
    align_gradient: AlignGradient = "held"
    negatives: Literal["fresh", "fixed"] = "fresh"
    negative_sampling: Literal["uniform", "degree"] = "uniform"
    negatives_per_edge: float = 1.0
    pairs: Literal["sampled", "all"] | None = None
    sample_size: int | Literal["sqrt", "authors"] = "authors"
    scope: Literal["inside", "global"] | None = None
    mask: float | None = None
    mask_by: MaskBy = "edges"
    score_fraction: float | None = None
    feature_dropout: float | None = None
    skip: bool = True
    assembly: Literal["mean", "whole"] | None = None
    feature_scaling: Literal["centred", "unit", "raw", "binary"] = "centred"
    feature_width: int = 0
    feature_storage: Literal["float32", "float16", "bfloat16"] = "float32"
    weighted_loss: bool = False
    directed: bool = False
    structure: Literal["none", "blend", "spectral", "auto"] = "auto"
    structure_width: int = 64
    learn_bias: bool = True
    decoder: str = "inner"
    epochs: int | None = None
    lr: float = 0.02
    schedule: Literal["constant", "linear"] = "constant"
    patience: int = 10
    validate_every: int = 5
    seed: int = 0
    device: str = "cpu"
    threads: int = 0
    backend: Literal["auto", "native", "torch"] = "auto"
    memory: int | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot work, before anything is read."""
        if self.method not in METHODS:
            raise InputError(f"unknown method '{self.method}'; {suggest(self.method, list(METHODS))}")
        if self.preset not in PRESETS:
            raise InputError(f"unknown preset '{self.preset}'; {suggest(self.preset, list(PRESETS))}")
        for name in ("dim", "hidden", "layers", "refresh_every", "validate_every", "structure_width", "fennel_passes"):
            if getattr(self, name) < 1:
                raise InputError(f"--{name.replace('_', '-')} is {getattr(self, name)}; it must be at least 1")
        if self.patches is not None and self.patches < 1:
            raise InputError(f"--patches is {self.patches}; it must be at least 1")
        for name in ("epochs", "threads", "patience", "seed", "feature_width"):
            if (getattr(self, name) or 0) < 0:
                raise InputError(f"--{name.replace('_', '-')} is {getattr(self, name)}; it must not be negative")
        if self.memory is not None and self.memory < 1:
            raise InputError(f"--memory is {self.memory}; give a size such as 4GB")
        for name in ("lr", "negatives_per_edge"):
            if not getattr(self, name) > 0:
                raise InputError(f"--{name.replace('_', '-')} is {getattr(self, name)}; it must be positive")
        for name, choices in CHOICES.items():
            value = getattr(self, name)
            if value not in choices:
                raise InputError(f"unknown {name.replace('_', '-')} '{value}'; {suggest(str(value), choices)}")
        for name in ("mask", "feature_dropout"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < 1:
                raise InputError(f"--{name.replace('_', '-')} is {value}; it must be at least 0 and below 1")
        if self.score_fraction is not None and not 0 < self.score_fraction <= 1:
            raise InputError(f"--score-fraction is {self.score_fraction}; it must be above 0 and at most 1")
        if self.fennel_passes > 1 and self.partition != "fennel":
            raise InputError(
                f"--fennel-passes is {self.fennel_passes}, and --partition is {self.partition}, not fennel"
            )
        if self.residual and self.hidden > self.dim:
            raise InputError(f"--hidden {self.hidden} is wider than --dim {self.dim}; --residual adds it to the vector")
        if self.scope == "global" and self.definition.alignment == "after":
            raise InputError(f"{self.method} trains its patches apart; --scope global needs l2g2g")
        if self.scope == "global" and self.loss_pairs != "sampled":
            raise InputError(f"--scope global scores sampled pairs, not {self.loss_pairs}")
        if self.loss_pairs != "sampled":
            self._check_sampled()
        self._check_decoder()
        if self.mask_by != "edges":
            self._check_mask()
        if self.align_gradient == "through":
            self._check_alignment()
        if self.assembly == "whole" and not self.shares_encoder:
            raise InputError("--assembly whole needs one shared encoder; use --share-encoder or --assembly mean")
        if self.structure == "spectral" and not self.can_be_spectral:
            raise InputError(
                "--structure spectral needs one shared encoder with a skip and the inner product; leave out "
                "--no-skip, --decoder, --directed and variational or separate encoders"
            )
        if isinstance(self.sample_size, str) and self.sample_size not in ("sqrt", "authors"):
            raise InputError(f"--sample-size is '{self.sample_size}'; give a number, sqrt or authors")

    def _check_sampled(self) -> None:
        """The losses over all pairs of some nodes draw none, and know neither weights nor directions."""
        if not DECODERS[self.decoder].has_factors:
            raise InputError(f"--decoder {self.decoder} scores sampled pairs; {self.method} scores {self.loss_pairs}")
        for option, is_set in (
            ("--directed", self.directed),
            ("--weighted-loss", self.weighted_loss),
            ("--negative-sampling degree", self.negative_sampling == "degree"),
        ):
            if is_set:
                raise InputError(f"{option} needs sampled pairs; {self.method} scores {self.loss_pairs}")

    def _check_decoder(self) -> None:
        decoder = DECODERS[self.decoder]
        if decoder.is_directed and not self.directed:
            raise InputError(f"--decoder {self.decoder} tells u → v from v → u; it needs --directed")
        if self.dim % decoder.dim_multiple:
            raise InputError(
                f"--dim is {self.dim}; --decoder {self.decoder} needs a multiple of {decoder.dim_multiple}"
            )
        if not decoder.allows_rotation and self.rotates and self.definition.alignment != "never":
            raise InputError(
                f"--decoder {self.decoder} does not allow rotations, which mix the parts of its vectors; "
                "use a shared encoder without --rotate, or another decoder"
            )

    def _check_mask(self) -> None:
        if self.mask_by != "patches":
            if not self._wanted_mask:
                raise InputError(f"--mask-by {self.mask_by} hides nothing with --mask 0; give a fraction")
            return
        if not self.definition.uses_patches or self.patches == 1:
            raise InputError(f"--mask-by patches hides the edges between patches, and {self.method} has one patch")
        if self.loss_scope == "inside":
            raise InputError("--mask-by patches predicts edges between patches; it needs --scope global")
        if self.mask is not None:
            raise InputError("--mask-by patches hides what the partition cuts; leave --mask out")

    def _check_alignment(self) -> None:
        if self.definition.alignment != "during" or self.patches == 1:
            raise InputError(f"--align-gradient through needs patches aligned in training; {self.method} has none")
        if not (self.rotates or self.translates or self.scale):
            raise InputError("--align-gradient through needs an alignment; add --rotate, --translate or both")

    @property
    def definition(self) -> Method:
        """The row of the methods table."""
        return METHODS[self.method]

    @property
    def shares_encoder(self) -> bool:
        """Whether one encoder serves all patches."""
        return self.definition.share_encoder if self.share_encoder is None else self.share_encoder

    @property
    def rotates(self) -> bool:
        """Whether patches are aligned by rotations."""
        return not self.shares_encoder if self.rotate is None else self.rotate

    @property
    def translates(self) -> bool:
        """Whether patches are aligned by translations."""
        return not self.shares_encoder if self.translate is None else self.translate

    @property
    def loss_pairs(self) -> PairChoice:
        """Which pairs the loss scores."""
        return self.pairs or self.definition.pairs

    @property
    def loss_scope(self) -> Scope:
        """Where the scored pairs lie."""
        possible = self.definition.alignment != "after" and self.loss_pairs == "sampled"
        return self.scope or ("global" if possible else "inside")

    @property
    def hidden_fraction(self) -> float:
        """Edges hidden from the encoder; the losses over all pairs of nodes score what the encoder sees.

        Of the edges inside patches where the patches are the mask: none.
        """
        if self.mask_by == "patches":
            return 0.0
        if self.mask_groups:
            return 1 - 1 / self.mask_groups
        return self._wanted_mask

    @property
    def _wanted_mask(self) -> float:
        if self.mask is not None:
            return self.mask
        return 0.7 if self.loss_pairs == "sampled" else 0.0

    @property
    def mask_groups(self) -> int:
        """Groups into which nodes or clusters are dealt every epoch, edges between them hidden; 0 for random edges."""
        if self.mask_by not in ("nodes", "clusters") or not self._wanted_mask:
            return 0
        return max(2, round(1 / (1 - self._wanted_mask)))

    @property
    def passes_whole_graph(self) -> bool:
        """Whether the final vectors are one pass of the encoder over the whole graph."""
        return (self.assembly or ("whole" if self.shares_encoder else "mean")) == "whole"

    def considers_structure(self, num_nodes: int) -> bool:
        """Whether structural columns are made beside the features of a graph of this size, for a trial at least."""
        return self.structure in ("blend", "spectral") or (self.structure == "auto" and num_nodes <= _MOST_AUTO_NODES)

    @property
    def can_be_spectral(self) -> bool:
        """Whether vectors may be eigenvectors: one encoder with a skip, and a plain inner product."""
        plain = self.decoder == "inner" and not self.directed and not self.definition.variational
        return self.skip and self.shares_encoder and plain

    @property
    def overlap_range(self) -> tuple[int, int]:
        """(least, wanted) number of nodes that joined patches share."""
        least = self.dim + 1 if self.min_overlap is None else self.min_overlap
        wanted = 2 * (self.dim + 1) if self.target_overlap is None else self.target_overlap
        return least, max(least, wanted)

    def num_patches(self, num_nodes: int) -> int:
        """Patches of a graph of this size: what was asked for, or one for every 100,000 nodes but at least ten.

        Small graphs get fewer, so that patches stay four times as large as what two of them share.
        """
        if self.patches is not None:
            return self.patches
        return max(2, min(max(10, -(-num_nodes // 100_000)), num_nodes // (4 * self.overlap_range[1])))

    def num_epochs(self, num_edges: int) -> int:
        """Epochs of a training on this many edges."""
        if self.epochs is not None:
            return self.epochs
        if self.schedule == "constant":
            return 300
        return 220 if num_edges < 20_000 else 100

    def scored_fraction(self, num_nodes: int, num_edges: int) -> float:
        """Share of the edges to predict that an epoch scores.

        A bounded number of pairs says enough for one step; a learned decoder costs a hundred times more per pair.
        """
        if self.score_fraction is not None:
            return self.score_fraction
        if self.loss_pairs != "sampled" or self.preset == "paper":
            return 1.0
        bound = DECODERS[self.decoder].most_pairs(num_nodes)
        return min(1.0, bound / max(1.0, num_edges * (self.hidden_fraction or 1.0)))

    @property
    def tables_per_layer(self) -> int:
        """Tables that a layer of the encoder holds for every node."""
        return ENCODERS[self.encoder].tables_per_layer

    @property
    def numbers_per_row(self) -> int:
        """Numbers that the layers of the encoder hold for each node."""
        return self.tables_per_layer * (self.hidden * (self.layers - 1) + self.dim)

    def num_sampled_nodes(self, num_nodes: int) -> int:
        """Nodes of FastGAE's subgraph. The authors' code: sqrt(N · −ln 0.05 · ln² 0.001 / 2) ≈ 8.45 √N."""
        if self.sample_size == "sqrt":
            wanted = int(num_nodes**0.5)
        elif self.sample_size == "authors":
            wanted = int((num_nodes * 2.995732 * 47.717083 / 2) ** 0.5)
        else:
            wanted = int(self.sample_size)
        return max(2, min(wanted, num_nodes))

    def to_dict(self) -> dict[str, Any]:
        """All settings, for JSON."""
        return asdict(self)

    @classmethod
    def names(cls) -> list[str]:
        """Names of all settings."""
        return [item.name for item in fields(cls)]


CHOICES: dict[str, list[Any]] = {
    "encoder": list(ENCODERS),
    "activation": ["relu", "elu"],
    "schedule": ["constant", "linear"],
    "partition": ["metis", "fennel", "random"],
    "align_gradient": ["held", "through"],
    "negatives": ["fresh", "fixed"],
    "pairs": [None, "sampled", "all"],
    "feature_scaling": ["centred", "unit", "raw", "binary"],
    "feature_storage": ["float32", "float16", "bfloat16"],
    "scope": [None, "inside", "global"],
    "mask_by": ["edges", "nodes", "clusters", "patches"],
    "assembly": [None, "mean", "whole"],
    "structure": ["none", "blend", "spectral", "auto"],
    "decoder": list(DECODERS),
    "negative_sampling": ["uniform", "degree"],
    "backend": ["auto", "native", "torch"],
}

# What the authors ran. Their patch methods keep one set of negatives; GAE and FastGAE draw fresh ones.
_PAPER = {
    "patches": 10,
    "partition": "fennel",
    "rotate": True,
    "translate": False,
    "negatives_per_edge": 2.0,
    "feature_scaling": "binary",
    "scope": "inside",
    "mask": 0.0,
    "feature_dropout": 0.0,
    "skip": False,
    "assembly": "mean",
    "structure": "none",
    "learn_bias": False,
    "lr": 0.001,
    "epochs": 200,
    "patience": 0,
    "validate_every": 10,
}
# Wider vectors and a learned decoder: for link prediction, where the vectors need not serve neighbour search.
_ACCURATE = {
    "dim": 128,
    "hidden": 128,
    "activation": "elu",
    "residual": True,
    "decoder": "product",
    "mask": 0.55,
    "feature_width": 256,
    "structure": "none",
    "lr": 0.02,
    "schedule": "linear",
    "validate_every": 20,
    "min_overlap": 17,
    "target_overlap": 34,
}
PRESETS: dict[str, dict[str, Any]] = {"default": {}, "paper": _PAPER, "accurate": _ACCURATE}


def make_config(method: str = "l2g2g", preset: str = "default", **options: Any) -> Config:
    """A preset with some settings changed; options that are None keep the preset's value.

    Example:
        >>> make_config("gae", "paper", epochs=50).lr
        0.001
    """
    if preset not in PRESETS:
        raise InputError(f"unknown preset '{preset}'; {suggest(preset, list(PRESETS))}")
    unknown = set(options) - set(Config.names())
    if unknown:
        name = sorted(unknown)[0]
        raise InputError(f"unknown setting '{name}'; {suggest(name, Config.names())}")
    config = Config(method=method, preset=preset)
    settings = dict(PRESETS[preset])
    if preset == "paper":
        settings["negatives"] = "fixed" if config.definition.uses_patches else "fresh"
        if method == "gae+l2g":
            settings["translate"] = True
    given = {name: value for name, value in options.items() if value is not None}
    if isinstance(given.get("memory"), str):
        given["memory"] = parse_size(given["memory"])
    if preset == "accurate" and "dim" in given:
        settings["hidden"] = given["dim"]
    if given.get("mask_by") == "patches":
        settings.pop("mask", None)  # the partition says how much is hidden, not the preset
    if given.get("directed"):
        settings["decoder"] = "asymmetric"
    settings.update(given)
    return replace(config, **settings)


_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def parse_size(text: str) -> int:
    """Bytes of a size such as 4GB, 500MB, 1.5 GiB or 2000000000.

    Example:
        >>> parse_size("4GB"), parse_size("1.5 GiB")
        (4000000000, 1610612736)
    """
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?)\s*([KMGT]?)(I?)B?\s*", text.upper())
    if found is None or (found[3] and not found[2]):
        raise InputError(f"--memory is '{text}'; give a size such as 4GB or 500MB")
    unit = _UNITS[found[2]]
    return int(float(found[1]) * (1024 ** (len(str(unit)) // 3) if found[3] else unit))


def suggest(word: str, choices: list[Any]) -> str:
    """Name the nearest choice, and all of them."""
    names = [str(choice) for choice in choices if choice is not None]
    near = difflib.get_close_matches(word, names, n=1)
    hint = f"did you mean '{near[0]}'? " if near else ""
    return f"{hint}choose from {', '.join(names)}"
