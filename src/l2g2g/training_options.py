"""Training options: the settings that every command which trains takes, declared once."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import typer

Command = TypeVar("Command", bound=Callable[..., None])


def settings(
    dim: Annotated[int | None, typer.Option(help="Dimension of the embedding.")] = None,
    hidden: Annotated[int | None, typer.Option(help="Width of the hidden layers.")] = None,
    layers: Annotated[int | None, typer.Option(help="Number of layers of the encoder.")] = None,
    encoder: Annotated[str | None, typer.Option(help="gcn, sage (GraphSAGE-mean) or linear.")] = None,
    activation: Annotated[str | None, typer.Option(help="relu or elu, after every layer but the last.")] = None,
    residual: Annotated[
        bool | None, typer.Option("--residual/--no-residual", help="Add the hidden layers to the vector.")
    ] = None,
    skip: Annotated[
        bool | None, typer.Option("--skip/--no-skip", help="A direct way for a node's own features.")
    ] = None,
    patches: Annotated[int | None, typer.Option(help="Number of patches; without it chosen from the size.")] = None,
    partition: Annotated[str | None, typer.Option(help="metis, fennel or random.")] = None,
    fennel_passes: Annotated[int | None, typer.Option(help="How often FENNEL moves every node.")] = None,
    share_encoder: Annotated[
        bool | None,
        typer.Option("--share-encoder/--separate-encoders", help="One encoder for all patches, or one each."),
    ] = None,
    refresh_every: Annotated[int | None, typer.Option(help="Epochs between two alignments in training.")] = None,
    rotate: Annotated[bool | None, typer.Option("--rotate/--no-rotate", help="Align by rotations.")] = None,
    translate: Annotated[bool | None, typer.Option("--translate/--no-translate", help="Align by translations.")] = None,
    scale: Annotated[bool | None, typer.Option("--scale/--no-scale", help="Align by scales.")] = None,
    align_gradient: Annotated[
        str | None,
        typer.Option(help="Alignment held between refreshes, or solved every epoch with its gradient through."),
    ] = None,
    assembly: Annotated[str | None, typer.Option(help="mean of the patches, or a whole pass over the graph.")] = None,
    feature_scaling: Annotated[str | None, typer.Option(help="Features centred, unit, raw or binary.")] = None,
    feature_width: Annotated[
        int | None, typer.Option(help="Columns to which features are compressed where it pays; 0 for never.")
    ] = None,
    feature_dropout: Annotated[
        float | None, typer.Option(help="Fraction of the feature entries dropped each epoch.")
    ] = None,
    feature_storage: Annotated[
        str | None, typer.Option(help="Dense features held as float32, float16 or bfloat16.")
    ] = None,
    structure: Annotated[
        str | None,
        typer.Option(
            help="What is made of the structure: none, blend (columns beside the features), spectral (the vectors are "
            "eigenvectors) or auto (validation decides)."
        ),
    ] = None,
    mask: Annotated[float | None, typer.Option(help="Fraction of the edges hidden from the encoder.")] = None,
    mask_by: Annotated[
        str | None,
        typer.Option(help="What is hidden: edges, or those between groups of nodes or clusters, or between patches."),
    ] = None,
    decoder: Annotated[
        str | None, typer.Option(help="Score of a pair: inner, cosine, distance, product (learned) or asymmetric.")
    ] = None,
    scope: Annotated[str | None, typer.Option(help="Scored pairs: inside each patch, or global.")] = None,
    pairs: Annotated[str | None, typer.Option(help="sampled pairs in the loss, or all (small graphs).")] = None,
    score_fraction: Annotated[
        float | None, typer.Option(help="Fraction of the edges to predict scored each epoch.")
    ] = None,
    sample_size: Annotated[str | None, typer.Option(help="FastGAE's node sample: a number, sqrt or authors.")] = None,
    weighted_loss: Annotated[
        bool | None, typer.Option("--weighted-loss/--unweighted-loss", help="Edges count in the loss by their weight.")
    ] = None,
    directed: Annotated[
        bool | None,
        typer.Option("--directed", help="Edges point from source to target; the vector is [source | target]."),
    ] = None,
    negatives: Annotated[str | None, typer.Option(help="fresh negatives every epoch, or fixed ones.")] = None,
    negative_sampling: Annotated[
        str | None, typer.Option(help="Far ends of negatives drawn uniform, or by degree (to the power 0.75).")
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Number of epochs.")] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate of Adam.")] = None,
    schedule: Annotated[str | None, typer.Option(help="Learning rate constant, or linear (up, then down).")] = None,
    patience: Annotated[
        int | None, typer.Option(help="Validations without improvement before stopping; 0 trains all epochs.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1 …")] = None,
    memory: Annotated[
        str | None, typer.Option(help="Memory that the run may take, as 4GB; a larger graph is kept on disk.")
    ] = None,
    threads: Annotated[int | None, typer.Option(help="CPU threads; 0 for all cores, or one for a small graph.")] = None,
    backend: Annotated[
        str | None, typer.Option(help="Kernels on the CPU: native (compiled), torch (reference), or auto.")
    ] = None,
) -> None:
    """The signature is what counts; see `takes_settings`."""


def takes_settings(command: Command) -> Command:
    """Give a command that ends in ``**options`` all training options. Those that were not given do not reach it."""
    own = inspect.signature(command, eval_str=True).parameters.values()
    shared = inspect.signature(settings, eval_str=True).parameters.values()
    named = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own if each.kind != each.VAR_KEYWORD]
    options = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in shared]
    names = {each.name for each in options}

    @functools.wraps(command)
    def with_settings(**given: Any) -> None:
        command(**{name: value for name, value in given.items() if name not in names or value is not None})

    with_settings.__signature__ = inspect.Signature([*named, *options])  # type: ignore[attr-defined]
    with_settings.__annotations__ = {each.name: each.annotation for each in [*named, *options]}
    return with_settings  # type: ignore[return-value]
