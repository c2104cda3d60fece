"""Verdicts on claims: measured values, a test of each value, and how many values must pass it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from l2g2g.graphs.stand_ins import STAND_INS
from l2g2g.paper.results import SIZES, Row

_PROTOCOL_WORDS = {"paper": "under the paper's protocol", "heldout": "on held-out links"}
CANNOT_BE_SAID = "cannot be said"


@dataclass(frozen=True)
class Evidence:
    """Stored lines by study, the latest of each cell."""

    rows: dict[str, list[Row]]
    quick: bool = False

    def of(self, study: str) -> list[Row]:
        """Return the lines of one study, none if it was not run."""
        return self.rows.get(study, [])


@dataclass(frozen=True)
class Finding:
    """Result of one claim.

    Attributes:
        evidence: The measured values as text.
        holds: Answer by protocol ("paper", "heldout", or "" where the protocol plays no part); empty if not measured.
        word: A verdict that is neither yes nor no; takes precedence over `holds`.
    """

    evidence: str
    holds: dict[str, bool] = field(default_factory=dict)
    word: str = ""

    @property
    def verdict(self) -> str:
        """The verdict as the report prints it.

        Example:
            >>> Finding("", {"heldout": True}).verdict
            "holds on held-out links (not measured under the paper's protocol)"
        """
        if self.word or not self.holds:
            return self.word or "not measured"
        answers = set(self.holds.values())
        if len(answers) == 2:
            return f"holds only {_PROTOCOL_WORDS['paper' if self.holds['paper'] else 'heldout']}"
        answer = "holds" if answers == {True} else "does not hold"
        missing = [words for name, words in _PROTOCOL_WORDS.items() if name not in self.holds]
        if "" in self.holds or not missing:
            return answer
        (measured,) = self.holds
        return f"{answer} {_PROTOCOL_WORDS[measured]} (not measured {missing[0]})"


@dataclass(frozen=True)
class Estimate:
    """A value with its standard error, 0 if unknown. text: shown instead of both."""

    mean: float
    error: float = 0.0
    text: str = ""

    def __format__(self, form: str) -> str:
        """Return the text, or mean ± error."""
        return self.text or f"{self.mean:{form}}" + (f" ± {self.error:.2f}" if self.error else "")

    def __float__(self) -> float:
        """Return the mean."""
        return self.mean


@dataclass(frozen=True)
class Measurement:
    """Values of one quantity.

    Attributes:
        title: Name of the quantity.
        values: By protocol ("" where it plays no part), then by graph or method ("" for a single value).
        form: Format of a value.
        printed: The same quantity by graph in the paper's own table.
        all_graphs_count: False for accuracy, where only the paper's own graphs decide and others are shown.
        notes: Sentences shown after the values.
        missing: Evidence shown if there are no values.
        undecided: The verdict if the values are too uncertain for yes or no.
    """

    title: str
    values: dict[str, dict[str, Any]]
    form: str = ".2f"
    printed: dict[str, Any] = field(default_factory=dict)
    all_graphs_count: bool = True
    notes: list[str] = field(default_factory=list)
    missing: str = "no finished cells"
    undecided: str = ""

    def show(self, values: dict[str, Any]) -> str:
        """Return names and values, as in `a +0.50, b -1.00`."""
        return ", ".join(f"{name} {value:{self.form}}".strip() for name, value in values.items())

    def excluded_as(self, graph: str) -> str:
        """Return why the value of a graph does not count, or "" if it does."""
        if self.all_graphs_count or graph in SIZES:
            return ""
        return "stand-ins" if graph in STAND_INS else "not in the paper"


@dataclass(frozen=True)
class Test:
    """A test of one value. words: as in "below 2"."""

    __test__ = False  # pytest must not collect it
    words: str
    passes: Callable[[Any], bool]


@dataclass(frozen=True)
class Graphs:
    """A selection of graphs by their stored lines."""

    words: str
    includes: Callable[[Row], bool]


@dataclass(frozen=True)
class HowMany:
    """How many of the tested values must pass. words: with {graphs} for the selection."""

    words: str
    enough: Callable[[list[bool]], bool]


ALL_GRAPHS = Graphs("graphs", lambda row: True)
MOST = HowMany("on more than half of the {graphs}", lambda answers: 2 * sum(answers) > len(answers))
ALMOST_ALL = HowMany(
    "on all {graphs}, or on all but one", lambda answers: MOST.enough(answers) and sum(answers) >= len(answers) - 1
)
ALL = HowMany("on all {graphs}", all)
ANY = HowMany("on one of the {graphs} or more", any)
NAMED = HowMany("on {graphs}", all)
METHODS = HowMany("for all methods", all)
ONE = HowMany("", all)


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper and the rule that judges it: enough values of a quantity pass a test.

    Attributes:
        where: Place in the paper.
        study: Study whose lines are measured; "" if the paper's own tables are enough.
        quantity: Takes the lines of the study and whether the run was quick.
        graphs: Graphs that are measured.
    """

    text: str
    where: str
    study: str
    quantity: Callable[[list[Row], bool], Measurement]
    test: Test
    how_many: HowMany = MOST
    graphs: Graphs = ALL_GRAPHS

    @property
    def rule(self) -> str:
        """The rule in words."""
        return f"{self.test.words} {self.how_many.words.format(graphs=self.graphs.words)}".strip()

    def judge(self, evidence: Evidence) -> Finding:
        """Measure the quantity in the stored lines and test every value."""
        rows = [row for row in evidence.of(self.study) if "error" in row or self.graphs.includes(row)]
        measured = self.quantity(rows, evidence.quick)
        parts: list[str] = []
        holds: dict[str, bool] = {}
        for protocol, values in measured.values.items():
            for reason in ("", "stand-ins", "not in the paper"):
                own = {name: value for name, value in values.items() if measured.excluded_as(name) == reason}
                if reason and own:
                    parts.append(f"{protocol} ({reason}, not counted: {measured.show(own)})")
                elif own:
                    answers = [bool(self.test.passes(value)) for value in own.values()]
                    is_single = "" in own or measured.undecided
                    shown = measured.show(own) if is_single else f"{count_true(answers)} ({measured.show(own)})"
                    parts.append(f"{protocol}: {shown}" if protocol else shown)
                    holds[protocol] = self.how_many.enough(answers)
        if not parts:
            return Finding(measured.missing)
        if holds:
            printed = [value for name, value in measured.printed.items() if self.graphs.includes(printed_row(name))]
            if printed:
                parts.append(f"as printed: {count_true([bool(self.test.passes(value)) for value in printed])}")
            parts += measured.notes
            parts += ["too few or too uncertain values"] if measured.undecided == CANNOT_BE_SAID else []
        separator = ": " if "" in measured.values else ", "
        return Finding(f"{measured.title}{separator}{'; '.join(parts)}", holds, measured.undecided)


def count_true(answers: list[bool]) -> str:
    """Return the number of passed tests as text."""
    return f"true for {sum(answers)} of {len(answers)}"


def printed_row(name: str) -> Row:
    """Return a stored line with the printed size of one of the paper's graphs."""
    return {"cell": {"dataset": name}, "num_nodes": SIZES[name].num_nodes, "num_edges": SIZES[name].num_edges}
