"""Plots: training curves as a figure file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from l2g2g.errors import InputError
from l2g2g.training.loop import History


def plot_training(histories: Mapping[str, History], path: Path, *, title: str = "") -> None:
    """Draw the loss of every epoch and the validation AUC of each method. path: .png, .svg or .pdf."""
    try:
        import matplotlib
    except ImportError as error:
        raise InputError("figures need matplotlib; install it with: pip install 'l2g2g[report]'") from error
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for name, history in histories.items():
        (line,) = left.plot(range(1, history.num_epochs + 1), history.losses, label=name, linewidth=1.3)
        if history.validations:
            epochs, scores = zip(*history.validations, strict=True)
            right.plot(epochs, [100 * score for score in scores], color=line.get_color(), marker=".", linewidth=1.3)
    left.set(xlabel="epoch", ylabel="training loss", title="Loss")
    right.set(xlabel="epoch", ylabel="validation AUC in %", title="Validation")
    left.legend(frameon=False)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    figure.suptitle(title)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
