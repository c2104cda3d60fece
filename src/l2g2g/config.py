"""Config: every setting of a run, declared once, with the presets and the checks that need no graph."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from l2g2g.components import DECODERS, ENCODERS
from l2g2g.errors import InputError
from l2g2g.methods import METHODS, AlignGradient, Method, PairChoice, Schedule, Scope
from l2g2g.options import ByMethod, Option, option, read_options, suggest

# Fraction of hidden edges after a bad cut: patches show about half of a node's edges, so that as few stay as with 0.7.
BAD_CUT_MASK = 0.5
_MOST_STRUCTURE_NODES = 50_000  # up to so many nodes structural columns take little time and memory
_LEAST_TERM_DIM = 8  # coordinates of vectors of which a term of the degree takes two
_WIDENED_SHARE, _MOST_WIDENED_EDGES = 0.4, 1_000_000
_LINEAR_EPOCHS = {5_000: 330, 20_000: 220}  # with --schedule linear: number of epochs of graphs with fewer edges
MaskBy = Literal["edges", "nodes"]
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def parse_size(text: str, option: str = "--memory") -> int:
    """Bytes of a size such as 4GB, 500MB, 1.5 GiB or 2000000000. option: the flag that messages name.

    Example:
        >>> parse_size("4GB"), parse_size("1.5 GiB")
        (4000000000, 1610612736)
    """
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?)\s*([KMGT]?)(I?)B?\s*", text.upper())
    if found is None or (found[3] and not found[2]):
        raise InputError(f"{option} is '{text}'; give a size such as 4GB or 500MB")
    unit = _UNITS[found[2]]
    return int(float(found[1]) * (1024 ** (len(str(unit)) // 3) if found[3] else unit))


def parse_count(text: str) -> int | str:
    """Convert a text of digits to a number; return any other text as it is."""
    return int(text) if text.isdecimal() else text


@dataclass(frozen=True)
class Config:
    """Settings of a run. Each reading of the paper is a named option.

    Every field declares the option of the same name: see `options.option`. docs/options.md lists them all.
    """

    method: str = option(
        "l2g2g",
        group="model",
        choices=dict.fromkeys(METHODS, ""),
        help="{choices}.",
        when="gae is an alternative for up to some tens of thousands of nodes; fastgae and gae+l2g are for comparison.",
    )
    preset: str = option(
        "default",
        group="model",
        choices={"default": "", "paper": "what the authors ran", "accurate": "128 dimensions, learned decoder"},
        help="Set of defaults: {choices}.",
        when="Use accurate if only links matter, paper to reproduce the published figures.",
    )
    dim: int = option(
        16,
        accurate=128,
        group="model",
        least=1,
        help="Dimension of the embedding.",
        when="Raise it for better links, lower it for smaller tables.",
    )
    hidden: int = option(
        32,
        accurate=128,
        group="model",
        least=1,
        help="Width of the hidden layers.",
        when="Lower it if memory is short. With --preset accurate it follows --dim.",
    )
    layers: int = option(
        2,
        group="model",
        least=1,
        help="Number of layers of the encoder: a vector depends on neighbours at most this many steps away.",
        when="Rarely worth a change: more layers cost time and memory.",
    )
    encoder: str = option(
        "gcn",
        group="model",
        choices=ENCODERS.notes,
        help="{choices}.",
        when="Use sage to weight a node's own features separately from those of its neighbours, linear as a baseline.",
    )
    decoder: str = option(
        "inner",
        accurate="product",
        group="model",
        choices=DECODERS.notes,
        help="Score of a pair: {choices}.",
        when="Use product for the best links, cosine or distance for neighbours by angle or by distance.",
    )
    activation: Literal["relu", "elu"] = option(
        "relu",
        accurate="elu",
        group="model",
        rare=True,
        help="Activation after every layer but the last: relu or elu.",
        when="Use elu together with --residual.",
    )
    residual: bool = option(
        False,
        accurate=True,
        group="model",
        rare=True,
        help="Add the hidden layers to the vector; needs --hidden at most --dim.",
        when="Use it with wide vectors, as the preset accurate does.",
    )
    skip: bool = option(
        True,
        paper=False,
        group="model",
        rare=True,
        help="Skip connection from a node's own features to its vector.",
        when="Turn it off to compare with a plain graph convolution.",
    )
    learn_bias: bool = option(
        True,
        paper=False,
        group="model",
        rare=True,
        help="Learn a bias of the inner-product decoder; the other decoders always have one.",
        when="Turn it off to score by the plain inner product.",
    )
    directed: bool = option(
        False,
        group="input",
        flags="--directed",
        help="Edges point from source to target; the vector is [source | target].",
        when="Use it if the direction of an edge matters; the encoder still uses edges in both directions.",
    )
    weighted_loss: bool = option(
        False,
        group="input",
        flags="--weighted-loss/--unweighted-loss",
        help="Weight each edge in the loss too; the encoder always uses weights.",
        when="Use it if weights express how certain an edge is.",
    )
    structure: Literal["none", "blend", "spectral", "auto"] = option(
        "auto",
        paper="none",
        group="input",
        help="How eigenvectors of the graph are used: none, blend (as additional features), spectral (as the result; "
        "nothing is trained) or auto (whichever scores best on the validation edges).",
        when="Choose none or blend to get trained vectors in any case. Without features, eigenvectors are always the "
        "input. With features, more than 50,000 nodes and --memory, auto means none.",
    )
    structure_width: int = option(
        64,
        group="input",
        least=1,
        rare=True,
        help="Number of eigenvectors and other columns computed from the structure.",
        when="Raise it for a graph without features and many communities.",
    )
    feature_scaling: Literal["centred", "unit", "raw", "binary"] = option(
        "centred",
        paper="binary",
        group="input",
        rare=True,
        help="centred (rows scaled to length 1, then the mean row subtracted), unit (rows scaled to length 1), raw, or "
        "binary (1 for every positive entry).",
        when="Use raw if the scale of the features carries meaning; binary is what the authors trained on.",
    )
    feature_width: int = option(
        0,
        accurate=256,
        group="input",
        least=0,
        rare=True,
        help="Compress wide features to this many columns if that saves time; 0 never does.",
        when="Set it for wide dense features that cost too much time.",
    )
    direct_width: int = option(
        0,
        accurate=32,
        group="model",
        least=0,
        rare=True,
        help="Number of coordinates (at most a quarter) that are computed instead of trained: one from the degree, the "
        "others principal components of the features. Only with --encoder gcn and --decoder product.",
        when="Set it to 0 to have trained coordinates only.",
    )
    degree_term: bool = option(
        True,
        paper=False,
        group="model",
        rare=True,
        help="Let the last two coordinates carry a function of the degree if validation shows a gain; the decoder is "
        "signed then. Only with --decoder inner and at least 8 dimensions.",
        when="Turn it off if every coordinate must be trained, or scores must be plain inner products.",
    )
    feature_dropout: float | None = option(
        None,
        paper=0.0,
        group="input",
        least=0,
        below=1,
        unset="depends on the number of entries of a row",
        rare=True,
        help="Fraction of the feature entries dropped each epoch.",
        when="Set it to 0 for a short training, raise it if the graph has few edges and many features.",
    )
    feature_storage: Literal["float32", "float16", "bfloat16"] = option(
        "float32",
        group="input",
        rare=True,
        help="Number format of dense features in training: float32, float16 or bfloat16.",
        when="Use float16 if dense features take most of the memory.",
    )
    patches: int | None = option(
        None,
        paper=10,
        group="patches",
        least=1,
        unset="10, one for every 100,000 nodes above a million, fewer below about 1,360",
        use="patches",
        help="Number of patches.",
        when="Rarely worth a change: accuracy hardly depends on it. More patches need less memory.",
    )
    partition: Literal["metis", "fennel", "random"] = option(
        "metis",
        paper="fennel",
        group="patches",
        use="patches",
        help="How the graph is cut: metis, fennel (faster, less memory) or random (for comparison).",
        when="Use fennel if METIS takes too long or too much memory.",
    )
    refresh_every: int = option(
        10,
        group="patches",
        least=1,
        use="synchronised",
        help="Epochs between two alignments of the patches in training.",
        when="Matters only with --rotate, --translate or --scale; lower it if the loss jumps at an alignment.",
    )
    fennel_passes: int = option(
        1,
        group="patches",
        least=1,
        use="patches",
        rare=True,
        help="Number of passes of FENNEL over the nodes.",
        when="Use 3 to keep more edges inside patches than the published single pass does.",
    )
    min_overlap: int | None = option(
        None,
        accurate=17,
        group="patches",
        least=0,
        unset="dim + 1",
        use="patches",
        rare=True,
        help="Minimum number of nodes that two overlapping patches share.",
        when="Lower it if overlaps take too much memory at a large --dim.",
    )
    target_overlap: int | None = option(
        None,
        accurate=34,
        group="patches",
        least=0,
        unset="2 (dim + 1)",
        use="patches",
        rare=True,
        help="Number of nodes that two overlapping patches should share.",
        when="Raise it if patches are aligned and the report shows large residuals.",
    )
    patch_degree: float = option(
        4.0,
        group="patches",
        above=0,
        use="patches",
        rare=True,
        help="Average number of patches that a patch overlaps with.",
        when="Raise it if patches are aligned and the report shows large residuals.",
    )
    most_patch_share: float | None = option(
        None,
        paper=0.0,
        group="patches",
        unset="0.4, 0 above 1,000,000 edges",
        least=0,
        most=1,
        use="patches",
        rare=True,
        help="If more than 20 % of the edges would be cut, let patches grow up to this share of all nodes, as far as "
        "--memory allows; 0 never does. Not with separate encoders.",
        when="Set it to 0 if patches must stay small.",
    )
    share_encoder: bool | None = option(
        None,
        group="patches",
        unset="yes, except for gae+l2g",
        flags="--share-encoder/--separate-encoders",
        use="synchronised",
        rare=True,
        help="One encoder for all patches, or one each.",
        when="Use separate ones only for patches that must not share weights: they cost accuracy.",
    )
    together: bool = option(
        True,
        group="patches",
        use="synchronised",
        rare=True,
        help="Train all patches as one block, or one after the other in less memory; the result is the same.",
        when="Turn it off if memory is short.",
    )
    rotate: bool | None = option(
        None,
        paper=True,
        group="patches",
        unset="with separate encoders",
        use="patches",
        rare=True,
        help="Align patches by rotations.",
        when="Use it with --separate-encoders and --scope inside; with a shared encoder it gains nothing.",
    )
    translate: bool | None = option(
        None,
        paper=ByMethod(lambda method: method.alignment == "after", "for gae+l2g"),
        group="patches",
        unset="with separate encoders",
        use="patches",
        rare=True,
        help="Align patches by translations.",
        when="Use it with --separate-encoders and --scope inside; with a shared encoder it gains nothing.",
    )
    scale: bool = option(
        False,
        group="patches",
        use="patches",
        rare=True,
        help="Align patches by scales.",
        when="Use it with --separate-encoders if the vectors of patches differ in length.",
    )
    align_gradient: AlignGradient = option(
        "held",
        group="patches",
        use="synchronised",
        rare=True,
        help="held: the alignment is constant between refreshes; through: it is solved every epoch, and gradients pass "
        "through it.",
        when="Use through only to study it: it costs accuracy and time.",
    )
    assembly: Literal["mean", "whole"] | None = option(
        None,
        paper="mean",
        group="patches",
        unset="whole with a shared encoder, else mean",
        use="synchronised",
        rare=True,
        help="Final vectors: mean of the patches, or whole (a last pass of the shared encoder over the graph).",
        when="Use mean to follow the paper.",
    )
    epochs: int | None = option(
        None,
        paper=200,
        group="training",
        least=0,
        unset="up to 300, with --schedule linear 100, 220 or 330",
        help="Number of epochs.",
        when="Use 30 for a first look. Early stopping may end training sooner, see --patience.",
    )
    lr: float = option(
        0.02,
        paper=0.001,
        group="training",
        above=0,
        help="Learning rate of Adam.",
        when="Lower it if training ends with exit code 4.",
    )
    patience: int = option(
        10,
        paper=0,
        group="training",
        least=0,
        help="Stop after this many validations without improvement; 0 trains all epochs.",
        when="Raise it if the validation score still grows when training stops.",
    )
    seed: int = option(
        0,
        group="training",
        least=0,
        help="Seed of every random choice.",
        when="Change it to see how much results depend on chance.",
    )
    mask: float | None = option(
        None,
        paper=0.0,
        accurate=0.55,
        group="training",
        least=0,
        below=1,
        unset="0.7, 0.5 if many edges are in no patch, 0 if all pairs are scored (--pairs)",
        help="Fraction of the edges hidden from the encoder each epoch and then predicted; 0 hides nothing.",
        when="Set it to 0 for a short training.",
    )
    negative_sampling: Literal["uniform", "degree", "auto"] | None = option(
        "uniform",
        accurate=None,
        group="training",
        unset="degree if the first layer has far more weights than the graph has edges",
        help="How training draws non-edges: each node of the graph with the same probability (uniform), with a "
        "probability that grows like its degree to the power 0.75 (degree), or what validation prefers after 30 epochs "
        "of each (auto).",
        when="Use degree if high-degree nodes fill the top of your rankings; AUC hardly changes. auto takes a fifth "
        "more time and needs validation edges.",
    )
    schedule: Schedule = option(
        "constant",
        accurate="linear",
        group="training",
        rare=True,
        help="constant learning rate, or linear: it rises for a tenth of the epochs, then falls to 0.",
        when="Use linear for a training of fixed length without early stopping.",
    )
    validate_every: int = option(
        5,
        paper=10,
        accurate=20,
        group="training",
        least=1,
        rare=True,
        help="Epochs between two validations.",
        when="Raise it if validation takes a large part of the time.",
    )
    mask_by: MaskBy = option(
        "edges",
        group="training",
        rare=True,
        help="What --mask hides: random edges, or the edges between random groups of nodes.",
        when="Rarely worth a change: both are equally good.",
    )
    scope: Scope | None = option(
        None,
        paper="inside",
        group="training",
        unset="global where the method allows it",
        use="synchronised",
        rare=True,
        help="Scored pairs: inside each patch, or global (also between patches, on the assembled embedding).",
        when="Use inside to follow the paper.",
    )
    pairs: Literal["sampled", "all"] | None = option(
        None,
        group="training",
        unset="sampled, but for fastgae",
        rare=True,
        help="Pairs in the loss: sampled, or all (small graphs).",
        when="Use all for the loss of the original GAE on a graph of a few thousand nodes.",
    )
    score_fraction: float | None = option(
        None,
        group="training",
        above=0,
        most=1,
        unset="as many as one step needs",
        rare=True,
        help="Fraction of the edges to be predicted that is scored each epoch, with as many non-edges.",
        when="Set it to 1 to score all of them in every epoch.",
    )
    sample_size: int | Literal["sqrt", "authors"] = option(
        "authors",
        group="training",
        least=1,
        parse=parse_count,
        use="sampled nodes",
        rare=True,
        help="Nodes of FastGAE's subgraph: a number, sqrt (the paper's text) or authors (their code).",
        when="Raise it for accuracy, lower it for time.",
    )
    negatives: Literal["fresh", "fixed"] = option(
        "fresh",
        paper=ByMethod(lambda method: "fixed" if method.uses_patches else "fresh", "fixed with patches"),
        group="training",
        rare=True,
        help="Non-edges drawn fresh every epoch, or fixed.",
        when="Use fixed to follow the authors, who did so for the patch methods.",
    )
    negatives_per_edge: float = option(
        1.0,
        paper=2.0,
        group="training",
        above=0,
        rare=True,
        help="Non-edges drawn for every undirected edge; the authors count an edge in both directions.",
        when="Rarely worth a change.",
    )
    device: str = option(
        "cpu",
        group="machine",
        help="Where to compute: cpu, cuda, cuda:1 … This release was tested on CPUs only.",
        when="Use cuda if there is a GPU; it runs the plain torch kernels.",
    )
    memory: int | None = option(
        None,
        group="machine",
        least=1,
        unset="no limit",
        parse=parse_size,
        help="Memory limit of the run, such as 4GB; what does not fit is kept on disk.",
        when="Set it if the graph may not fit into memory: see l2g2g plan.",
    )
    threads: int = option(
        0,
        group="machine",
        least=0,
        help="Number of CPU threads; 0 uses all cores (one for a small graph).",
        when="Set it to 1 if several runs share a machine.",
    )
    backend: Literal["auto", "native", "torch"] = option(
        "auto",
        group="machine",
        rare=True,
        help="Kernels on the CPU: native (compiled), torch (reference), or auto: native if it is built.",
        when="Use torch to compare the two. Other devices always use torch.",
    )

    def __post_init__(self) -> None:
        """Check options and their combinations. Raises InputError for settings that suit no graph."""
        for name, declared in OPTIONS.items():
            object.__setattr__(self, name, declared.check(getattr(self, name)))
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
            self._refuse_needs_of_sampled_pairs()
        self._check_decoder()
        if self.mask_by != "edges" and not self._wanted_mask:
            raise InputError(f"--mask-by {self.mask_by} hides nothing with --mask 0; give a fraction")
        if self.align_gradient == "through":
            self._check_alignment()
        if self.assembly == "whole" and not self.shares_encoder:
            raise InputError("--assembly whole needs one shared encoder; use --share-encoder or --assembly mean")
        if self.negative_sampling == "auto" and self.patience == 0:
            raise InputError(
                "--negative-sampling auto is decided by validation pairs, which --patience 0 does without; "
                "give a --patience, or choose uniform or degree"
            )
        if self.structure == "spectral" and not self.can_be_spectral:
            raise InputError(
                "--structure spectral needs one shared encoder with a skip and the inner product; leave out "
                "--no-skip, --decoder, --directed and variational or separate encoders"
            )

    def _refuse_needs_of_sampled_pairs(self) -> None:
        """The losses over all pairs of some nodes sample no negatives, and have neither weights nor directions."""
        if not DECODERS[self.decoder].has_factors:
            raise InputError(f"--decoder {self.decoder} scores sampled pairs; {self.method} scores {self.loss_pairs}")
        for needed, is_set in (
            ("--directed", self.directed),
            ("--weighted-loss", self.weighted_loss),
            (f"--negative-sampling {self.negative_sampling}", self.negative_sampling not in (None, "uniform")),
        ):
            if is_set:
                raise InputError(f"{needed} needs sampled pairs; {self.method} scores {self.loss_pairs}")

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

    def _check_alignment(self) -> None:
        if self.definition.alignment != "during" or self.patches == 1:
            raise InputError(f"--align-gradient through needs patches aligned in training; {self.method} has none")
        if not (self.rotates or self.translates or self.scale):
            raise InputError("--align-gradient through needs an alignment; add --rotate, --translate or both")

    @property
    def definition(self) -> Method:
        """The method's row of `METHODS`."""
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
        """Fraction of the edges that are hidden from the encoder: 0 for the losses over all pairs of nodes."""
        if self.mask_groups:
            return 1 - 1 / self.mask_groups
        return self._wanted_mask

    @property
    def mask_is_open(self) -> bool:
        """Whether the fraction of hidden edges is chosen by how the patches cut the graph."""
        return self.mask is None and self.mask_by == "edges" and self.loss_pairs == "sampled"

    @property
    def _wanted_mask(self) -> float:
        if self.mask is not None:
            return self.mask
        return 0.7 if self.loss_pairs == "sampled" else 0.0

    @property
    def mask_groups(self) -> int:
        """Number of random groups of nodes between which edges are hidden; 0 if random edges are hidden."""
        if self.mask_by == "edges" or not self._wanted_mask:
            return 0
        return max(2, round(1 / (1 - self._wanted_mask)))

    @property
    def passes_whole_graph(self) -> bool:
        """Whether the final vectors are one pass of the encoder over the whole graph."""
        return (self.assembly or ("whole" if self.shares_encoder else "mean")) == "whole"

    def considers_structure(self, num_nodes: int) -> bool:
        """Whether structural columns are computed for a graph of this size with features, if only for a trial."""
        return self.expects_structure(num_nodes) or (self.structure == "auto" and self.memory is None)

    def expects_structure(self, num_nodes: int) -> bool:
        """Whether an estimate of memory counts structural columns; of large graphs they seldom win the trial."""
        return self.structure in ("blend", "spectral") or (
            self.structure == "auto" and num_nodes <= _MOST_STRUCTURE_NODES
        )

    @property
    def can_be_spectral(self) -> bool:
        """Whether vectors may be eigenvectors: this takes one encoder with a skip, and an inner product.

        With the preset accurate eigenvectors get the inner product in place of the learned decoder.
        """
        inner = self.decoder in ("inner", "signed") or (self.preset == "accurate" and self.decoder == "product")
        plain = inner and not self.directed and not self.definition.variational
        return self.skip and self.shares_encoder and plain

    @property
    def is_learned(self) -> bool:
        """Whether the decoder is trained; then also columns whose inner products say little are of use."""
        return not DECODERS[self.decoder].has_factors

    def spectral_width(self, num_features: int) -> int:
        """Number of eigenvectors to choose spectral vectors from; without features the encoder reads them too.

        With a learned decoder it is less than its dimension: so many would take most of the time of a run.
        """
        if self.is_learned:
            return min(16, self.dim) if num_features else self.structure_width
        return self.dim if num_features else max(self.dim, self.structure_width)

    @property
    def most_direct(self) -> int:
        """Most coordinates that are computed instead of trained; 0 unless a shared encoder gives the final vectors.

        It is 0 rather than 1, because the term of the degree takes two coordinates.
        """
        plain = self.encoder == "gcn" and self.decoder == "product" and self.skip and self.shares_encoder
        moved = self.rotates or self.translates or self.scale
        most = min(self.direct_width, self.dim // 4)
        return most if plain and not moved and not self.definition.variational and most >= 2 else 0

    @property
    def may_weigh_degrees(self) -> bool:
        """Whether spectral vectors, or trained ones with an inner product, may have a term of the degree."""
        return self.degree_term and self.dim >= _LEAST_TERM_DIM and self.can_be_signed

    @property
    def tries_degree_term(self) -> bool:
        """Whether trained vectors may have one: one shared encoder, an inner product, patches that are not moved."""
        plain = self.encoder == "gcn" and self.decoder == "inner" and self.skip and self.shares_encoder
        moved = self.rotates or self.translates or self.scale
        plain = plain and not (moved or self.residual or self.directed or self.definition.variational)
        return plain and self.may_weigh_degrees and self.loss_pairs == "sampled"

    @property
    def trained_dim(self) -> int:
        """Number of coordinates that are trained."""
        return self.dim - self.most_direct

    @property
    def trained_hidden(self) -> int:
        """Width of the hidden layers; with --residual no wider than the trained coordinates."""
        return min(self.hidden, self.trained_dim) if self.residual else self.hidden

    @property
    def can_be_signed(self) -> bool:
        """Whether coordinates of spectral vectors may count against a link: not if patches are rotated."""
        return not self.rotates or self.definition.alignment == "never"

    @property
    def overlap_range(self) -> tuple[int, int]:
        """(least, wanted) number of nodes that joined patches share."""
        least = self.dim + 1 if self.min_overlap is None else self.min_overlap
        wanted = 2 * (self.dim + 1) if self.target_overlap is None else self.target_overlap
        return least, max(least, wanted)

    def widens_to(self, num_edges: int) -> float:
        """Share of the nodes that a patch may grow to after a bad cut; 0 for patches that do not grow.

        Patches of large graphs hold enough edges to learn from, and wider ones make an epoch up to three times as long.
        """
        if not self.shares_encoder:
            return 0.0
        if self.most_patch_share is None:
            return _WIDENED_SHARE if num_edges <= _MOST_WIDENED_EDGES else 0.0
        return self.most_patch_share

    def num_patches(self, num_nodes: int) -> int:
        """Number of patches of a graph of this size: --patches, or one for every 100,000 nodes but at least ten.

        Small graphs get fewer, so that a patch is at least four times as large as an overlap.
        """
        if self.patches is not None:
            return self.patches
        return max(2, min(max(10, -(-num_nodes // 100_000)), num_nodes // (4 * self.overlap_range[1])))

    def num_epochs(self, num_edges: int) -> int:
        """Number of epochs of a training on this many edges."""
        if self.epochs is not None:
            return self.epochs
        if self.schedule == "constant":
            return 300
        return next((epochs for edges, epochs in _LINEAR_EPOCHS.items() if num_edges < edges), 100)

    def scored_fraction(self, num_nodes: int, num_edges: int) -> float:
        """Fraction of the hidden edges that an epoch scores.

        A bounded number of pairs is enough for one step; a learned decoder costs a hundred times more per pair.
        """
        if self.score_fraction is not None:
            return self.score_fraction
        if self.loss_pairs != "sampled" or self.preset == "paper":
            return 1.0
        bound = DECODERS[self.decoder].most_pairs(num_nodes)
        return min(1.0, bound / max(1.0, num_edges * (self.hidden_fraction or 1.0)))

    @property
    def tables_per_layer(self) -> int:
        """Number of tables with a row for every node that a layer of the encoder keeps."""
        return ENCODERS[self.encoder].tables_per_layer

    @property
    def numbers_per_row(self) -> int:
        """How many numbers the layers of the encoder keep for each node."""
        return self.tables_per_layer * (self.hidden * (self.layers - 1) + self.dim)

    def num_sampled_nodes(self, num_nodes: int) -> int:
        """Number of nodes of FastGAE's subgraph. The authors' code: sqrt(N · −ln 0.05 · ln² 0.001 / 2) ≈ 8.45 √N."""
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


OPTIONS: dict[str, Option] = read_options(Config)


def make_config(method: str = "l2g2g", preset: str = "default", **options: Any) -> Config:
    """Make the settings of a preset with some options changed; options that are None keep the preset's value.

    Example:
        >>> make_config("gae", "paper", epochs=50).lr
        0.001
    """
    OPTIONS["method"].check(method)
    OPTIONS["preset"].check(preset)
    unknown = set(options) - set(OPTIONS)
    if unknown:
        name = sorted(unknown)[0]
        raise InputError(f"unknown setting '{name}'; {suggest(name, OPTIONS)}")
    given = {name: value for name, value in options.items() if value is not None}
    usual = {name: each.default_of(preset, METHODS[method]) for name, each in OPTIONS.items()}
    config = Config(**{**usual, **_following(preset, given), **given, "method": method, "preset": preset})
    if given.get("direct_width") and not config.most_direct:
        raise InputError(
            f"--direct-width {config.direct_width} needs --encoder gcn, --decoder product, --skip, --dim 8 at least "
            f"and patches that are not moved; leave it out, or use --preset accurate"
        )
    return config


def _following(preset: str, given: dict[str, Any]) -> dict[str, Any]:
    """Defaults that follow from another option that is given."""
    defaults: dict[str, Any] = {}
    if preset == "accurate" and "dim" in given:
        defaults["hidden"] = given["dim"]
    if given.get("directed"):
        defaults["decoder"] = "asymmetric"
    return defaults
