"""Command line of the alignment: `l2g2g align`, and `l2g2g party` for those who share only their overlaps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from l2g2g.cli.common_options import JsonOption, OutputOption, QuietOption
from l2g2g.cli.help import App, complete_words
from l2g2g.options import check_choice

WEIGHTS, ASSEMBLIES = ("overlap", "uniform"), ("mean", "median")
PatchFiles = Annotated[list[Path], typer.Argument(help="Embeddings: .parquet, .csv, .txt or .npy with its ids.")]
RotateOption = Annotated[bool, typer.Option("--rotate/--no-rotate", help="Allow rotations and reflections.")]
TranslateOption = Annotated[bool, typer.Option("--translate/--no-translate", help="Allow translations.")]
ScaleOption = Annotated[bool, typer.Option("--scale/--no-scale", help="Allow scales.")]
WeightsOption = Annotated[
    str,
    typer.Option(
        help="Pairs count by shared nodes (overlap) or alike (uniform).", autocompletion=complete_words(WEIGHTS)
    ),
]
RobustOption = Annotated[bool, typer.Option("--robust", help="Give less weight to nodes and pairs that fit badly.")]

party = App(
    help="Align embeddings of several parties that exchange only the vectors of common nodes.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def align(
    patches: PatchFiles,
    output: OutputOption,
    anchor: Annotated[
        Path | None, typer.Option(help="A file whose coordinates stay: one of the patches, or a finished embedding.")
    ] = None,
    rotate: RotateOption = True,
    translate: TranslateOption = True,
    scale: ScaleOption = False,
    weights: WeightsOption = "overlap",
    assembly: Annotated[
        str,
        typer.Option(help="Merge the copies of a node by mean or median.", autocompletion=complete_words(ASSEMBLIES)),
    ] = "mean",
    robust: RobustOption = False,
    min_overlap: Annotated[int, typer.Option(help="Leave out pairs that share fewer nodes.")] = 1,
    report: Annotated[Path | None, typer.Option(help="Write a page about the alignment (.html).")] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Align embeddings that were trained separately, by the nodes they share."""
    check_choice("weights", weights, WEIGHTS)
    check_choice("assembly", assembly, ASSEMBLIES)
    from l2g2g.graphs.node_columns import read_embedding
    from l2g2g.graphs.write import check_output, check_place, write_embedding, write_text

    check_output(output)
    if report is not None:
        check_place(report, (".html",))
    from l2g2g.alignment.align import align as align_patches

    loaded = [read_embedding(path) for path in patches]
    fixed: Any = None
    if anchor is not None:
        same = [number for number, path in enumerate(patches) if path.resolve() == anchor.resolve()]
        fixed = same[0] if same else read_embedding(anchor)
    aligned = align_patches(
        loaded,
        anchor=fixed,
        rotate=rotate,
        translate=translate,
        scale=scale,
        weights=weights,  # type: ignore[arg-type]
        assembly=assembly,  # type: ignore[arg-type]
        robust=robust,
        min_overlap=min_overlap,
    )
    write_embedding(output, aligned.embedding, aligned.nodes)
    names = [str(path) for path in patches]
    if report is not None:
        from l2g2g.reports.run_page import render_alignment

        write_text(report, render_alignment(aligned, names))
    if as_json:
        row = {
            "num_nodes": len(aligned.nodes),
            "dim": int(aligned.embedding.shape[1]),
            "num_patches": len(patches),
            "num_pairs": len(aligned.overlap_sizes),
            "num_parts": int(aligned.components.max()) + 1,
            "residual_before": aligned.residuals.before,
            "residual_after": aligned.residuals.after,
            "residual_per_patch": [float(value) for value in aligned.residuals.per_patch],
            "output": str(output),
        }
        typer.echo(json.dumps(row))
    elif not quiet:
        typer.echo("\n".join(f"patch {number}: {name}" for number, name in enumerate(names)))
        typer.echo(aligned.summary())
        typer.echo(f"wrote {output}")


@party.command("export")
def export_party(
    embedding: Annotated[Path, typer.Argument(help="This party's embedding.")],
    shared: Annotated[Path, typer.Option(help="Ids that other parties hold too, one a line.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="What leaves the party (.npz).")],
) -> None:
    """At a party: write the vectors of shared nodes, and nothing else, for the coordinator."""
    from l2g2g.alignment.parties import export_overlaps, read_ids
    from l2g2g.graphs.node_columns import read_embedding
    from l2g2g.graphs.write import check_place

    nodes, coordinates = read_embedding(embedding)
    export = export_overlaps(nodes.astype(str), coordinates, read_ids(shared))
    check_place(output, (".npz",))
    export.save(output)
    typer.echo(f"{output}: {len(export.nodes):,} of {len(nodes):,} vectors leave this party")


@party.command("solve")
def solve_parties(
    exports: Annotated[list[Path], typer.Argument(help="What the parties exported.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for one transform per party.")],
    rotate: RotateOption = True,
    translate: TranslateOption = True,
    scale: ScaleOption = False,
    robust: RobustOption = False,
) -> None:
    """At the coordinator: compute one transform for each party from the exports."""
    from l2g2g.alignment.parties import solve_transforms

    transforms = solve_transforms(list(exports), rotate=rotate, translate=translate, scale=scale, robust=robust)
    output.mkdir(parents=True, exist_ok=True)
    for path, transform in zip(exports, transforms, strict=True):
        target = output / f"{path.stem}.transform.npz"
        transform.save(target)
        typer.echo(f"wrote {target}")


@party.command("apply")
def apply_party(
    embedding: Annotated[Path, typer.Argument(help="This party's embedding.")],
    transform: Annotated[Path, typer.Argument(help="Its transform from the coordinator.")],
    output: OutputOption,
) -> None:
    """At a party: transform its own embedding into the common coordinates."""
    from l2g2g.alignment.parties import apply_transform
    from l2g2g.graphs.node_columns import read_embedding
    from l2g2g.graphs.write import check_output, write_embedding

    check_output(output)
    ids, coordinates = read_embedding(embedding)
    write_embedding(output, apply_transform(coordinates, transform), ids)
    typer.echo(f"wrote {output}")
