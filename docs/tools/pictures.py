"""Draw the pictures of docs/how_it_works.md from a small real run, and print the figures that the page quotes.

    python docs/tools/pictures.py docs/figures/how

289 points on a bent grid, neighbours joined: a graph that has a shape, so that one sees what happens to it. The graph
is cut into four patches, each is embedded in two dimensions by a GAE of its own that knows nothing of the others, and
`align` brings them together. The encoder sees no positions. SVG follows light and dark by itself.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.spatial import cKDTree

from l2g2g import GAE, align, read_graph
from l2g2g.alignment.align import AlignedEmbedding
from l2g2g.graphs.graph import Graph
from l2g2g.patches.overlap import PatchSet, make_patches
from l2g2g.patches.partition import partition

SIDE, NUM_PATCHES, EPOCHS = 17, 4, 300
LIGHT = ("#fcfcfd", "#1f2430", "#9aa3b2", "#1f77b4", "#c2571a", "#2a8a43", "#a03aa0")
DARK = ("#1b1e26", "#e6e8ee", "#6d7688", "#6bb1ea", "#f19a5b", "#6fcf87", "#dd86dd")
NAMES = ("paper", "ink", "line", *(f"p{number}" for number in range(NUM_PATCHES)))
PANEL, MARGIN, TITLE = 250, 18, 34


@dataclass(frozen=True)
class Shown:
    """The run: where the points lie, their graph, the patches, each embedded apart, and all of them aligned."""

    points: np.ndarray
    graph: Graph
    patches: PatchSet
    apart: list[np.ndarray]
    aligned: AlignedEmbedding


def run(epochs: int = EPOCHS) -> Shown:
    """Cut, embed every patch by itself, align."""
    generator = np.random.default_rng(3)
    grid = np.stack(np.meshgrid(np.arange(SIDE), np.arange(SIDE)), axis=-1).reshape(-1, 2)
    points = grid + generator.uniform(-0.35, 0.35, grid.shape)
    graph = read_graph((cKDTree(points).query_pairs(1.75, output_type="ndarray"), None))
    labels = partition(graph.adjacency, NUM_PATCHES)
    patches = make_patches(graph, labels, min_overlap=12, target_overlap=24, mean_degree=4.0)
    apart = []
    for number in range(NUM_PATCHES):
        nodes = patches.nodes_of(number)
        model = GAE(dim=2, decoder="distance", epochs=epochs, validation_fraction=0.0, seed=number)
        apart.append(model.fit_transform(graph.adjacency[nodes][:, nodes]))
    aligned = align([(patches.nodes_of(number), apart[number]) for number in range(NUM_PATCHES)])
    return Shown(points, graph, patches, apart, aligned)


def draw_patches(shown: Shown) -> str:
    """The graph, its patches pulled apart, and what two of them share."""
    whole, pulled = _Panel("the graph", 0), _Panel("four patches; rings: nodes of several", 1)
    whole.fit(shown.points)
    whole.edges(shown.points, _edges(shown.graph))
    whole.dots(shown.points, "ink", 2.2)
    held = np.bincount(shown.patches.global_nodes, minlength=shown.graph.num_nodes)
    middle = shown.points.mean(axis=0)
    places = []
    for number in range(NUM_PATCHES):
        nodes = shown.patches.nodes_of(number)
        places.append(shown.points[nodes] + 0.55 * (shown.points[nodes].mean(axis=0) - middle))
    pulled.fit(np.concatenate(places))
    for number, place in enumerate(places):
        nodes = shown.patches.nodes_of(number)
        pulled.dots(place[held[nodes] == 1], f"p{number}", 2.6)
        pulled.rings(place[held[nodes] > 1], f"p{number}")
    return _svg([whole, pulled], "The graph, and the four overlapping patches it is cut into")


def draw_rotations(shown: Shown) -> str:
    """The patches as their encoders left them, and after alignment."""
    before, after = _Panel("embedded apart", 0), _Panel("turned and shifted to agree", 1)
    moved = [
        vectors @ shown.aligned.rotations[number] + shown.aligned.translations[number]
        for number, vectors in enumerate(shown.apart)
    ]
    for panel, parts in ((before, shown.apart), (after, moved)):
        panel.fit(np.concatenate(parts))
        for number, vectors in enumerate(parts):
            panel.dots(vectors, f"p{number}", 2.6)
    return _svg([before, after], "Four embeddings on top of each other; the same after rotation and translation")


def draw_assembly(shown: Shown) -> str:
    """The copies of shared nodes with the ways to their means, and the one embedding that remains."""
    copies, final = _Panel("shared nodes: copies and means", 0), _Panel("one vector per node", 1)
    middle = shown.aligned.embedding
    copies.fit(middle)
    final.fit(middle)
    held = np.bincount(shown.patches.global_nodes, minlength=shown.graph.num_nodes)
    for number, vectors in enumerate(shown.apart):
        nodes = shown.patches.nodes_of(number)
        shared = held[nodes] > 1
        moved = (vectors @ shown.aligned.rotations[number] + shown.aligned.translations[number])[shared]
        copies.ways(moved, middle[nodes[shared]], f"p{number}")
        copies.dots(moved, f"p{number}", 2.2)
    copies.dots(middle[held > 1], "ink", 2.6)
    final.edges(middle, _edges(shown.graph))
    final.dots(middle, "ink", 2.2)
    return _svg([copies, final], "Copies are averaged; the embedding has the shape of the graph")


def draw_stages() -> str:
    """The way of the data, in words."""
    stages = [
        ("graph", "edges, features"),
        ("patches", "overlapping"),
        ("encoder", "one for all"),
        ("one frame", "aligned, or one pass"),
        ("pairs scored", "inside and between"),
        ("vectors", "one per node"),
    ]
    width, gap, height = 128, 18, 62
    parts = []
    for number, (name, detail) in enumerate(stages):
        left = MARGIN + number * (width + gap)
        colour = f"p{number % NUM_PATCHES}" if 0 < number < len(stages) - 1 else "ink"
        parts.append(
            f'<rect x="{left}" y="{MARGIN}" width="{width}" height="{height}" rx="8" class="box {colour}-line"/>'
        )
        centre = left + width / 2
        parts.append(f'<text x="{centre}" y="{MARGIN + 27}" class="name">{name}</text>')
        parts.append(f'<text x="{centre}" y="{MARGIN + 47}" class="small">{detail}</text>')
        if number:
            x, y = left - 3, MARGIN + height / 2
            parts.append(f'<path d="M{left - gap + 3} {y} H{x} m-5 -4 l5 4 l-5 4" class="way ink-line"/>')
    total = 2 * MARGIN + len(stages) * (width + gap) - gap
    return _frame("".join(parts), total, height + 2 * MARGIN, "From a graph to one vector per node, in six stages")


class _Panel:
    """A square that points are drawn in, one of two beside each other."""

    def __init__(self, title: str, place: int) -> None:
        self.left = MARGIN + place * (PANEL + 2 * MARGIN)
        self.parts = [f'<text x="{self.left + PANEL / 2}" y="24" class="name">{title}</text>']

    def fit(self, points: np.ndarray) -> None:
        """Choose the scale so that these points fill the panel."""
        self.low, spread = points.min(axis=0), np.ptp(points, axis=0)
        self.scale = PANEL / float(spread.max())
        self.offset = (PANEL - spread * self.scale) / 2

    def place(self, points: np.ndarray) -> np.ndarray:
        """Coordinates in the picture, upwards turned to downwards."""
        local = (points - self.low) * self.scale + self.offset
        return np.column_stack([self.left + local[:, 0], TITLE + MARGIN + PANEL - local[:, 1]])

    def dots(self, points: np.ndarray, colour: str, radius: float) -> None:
        """A disc for every point."""
        self.parts += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" class="{colour}"/>' for x, y in self.place(points)
        ]

    def rings(self, points: np.ndarray, colour: str) -> None:
        """A ring for every point."""
        self.parts += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" class="ring {colour}-line"/>' for x, y in self.place(points)
        ]

    def edges(self, points: np.ndarray, edges: np.ndarray) -> None:
        """Thin lines between joined nodes."""
        self._lines(self.place(points[edges[:, 0]]), self.place(points[edges[:, 1]]), "edge")

    def ways(self, starts: np.ndarray, ends: np.ndarray, colour: str) -> None:
        """Lines from copies to means."""
        self._lines(self.place(starts), self.place(ends), f"way {colour}-line")

    def _lines(self, starts: np.ndarray, ends: np.ndarray, kind: str) -> None:
        path = "".join(f"M{a:.1f} {b:.1f}L{c:.1f} {d:.1f}" for (a, b), (c, d) in zip(starts, ends, strict=True))
        self.parts.append(f'<path d="{path}" class="{kind}"/>')


def _edges(graph: Graph) -> np.ndarray:
    rows, columns = graph.adjacency.nonzero()
    return np.column_stack([rows, columns])[rows < columns]


def _svg(panels: list[_Panel], label: str) -> str:
    width = len(panels) * (PANEL + 2 * MARGIN)
    return _frame("".join("".join(panel.parts) for panel in panels), width, TITLE + PANEL + 2 * MARGIN, label)


def _frame(content: str, width: float, height: float, label: str) -> str:
    """The file: own background and ink, both of which follow the reader's scheme."""

    def colours(values: tuple[str, ...]) -> str:
        return ";".join(f"--{name}:{value}" for name, value in zip(NAMES, values, strict=True))

    classes = "".join(f".{name}{{fill:var(--{name})}}.{name}-line{{stroke:var(--{name})}}" for name in NAMES)
    style = (
        f"svg{{{colours(LIGHT)}}}@media(prefers-color-scheme:dark){{svg{{{colours(DARK)}}}}}{classes}"
        "text{font-family:sans-serif;text-anchor:middle;fill:var(--ink)}.name{font-size:14px}.small{font-size:11px}"
        ".edge{stroke:var(--line);stroke-width:.6;fill:none}.way{stroke-width:1;fill:none}"
        ".ring{fill:none;stroke-width:1.4}.box{fill:none;stroke-width:1.6}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" role="img" '
        f'aria-label="{label}"><style>{style}</style>'
        f'<rect width="100%" height="100%" rx="8" class="paper"/>{content}</svg>\n'
    )


def main(folder: Path) -> None:
    """Draw everything, and print what the page says in numbers."""
    shown = run()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "stages.svg").write_text(draw_stages())
    (folder / "patches.svg").write_text(draw_patches(shown))
    (folder / "rotations.svg").write_text(draw_rotations(shown))
    (folder / "assembly.svg").write_text(draw_assembly(shown))
    print(f"{shown.graph.num_nodes} nodes, {shown.graph.num_edges} edges, patches of {shown.patches.sizes.tolist()}")
    print(shown.aligned.summary(worst=0))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("docs/figures/how"))
