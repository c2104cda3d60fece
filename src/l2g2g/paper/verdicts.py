"""Verdicts on claims: a measured value per graph or method, a test for one value, and a rule for all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, TypeAlias

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
        """Lines of one study; empty where it was not run."""
        return self.rows.get(study, [])


@dataclass(frozen=True)
class Finding:
    """What the lines say about a claim.

    Attributes:
        evidence: The measured values in words.
        holds: By protocol, "paper" and "heldout", or under "" where the protocol plays no part; empty if not measured.
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
    """A figure with its standard error. error: 0 where there is none; text: shown instead of both, or a note."""

    mean: float
    error: float = 0.0
    text: str = ""

    def __format__(self, form: str) -> str:
        """The text, or mean ± error."""
        return self.text or f"{self.mean:{form}}" + (f" ± {self.error:.2f}" if self.error else "")

    def __float__(self) -> float:
        """The mean."""
        return self.mean


@dataclass(frozen=True)
class Measurement:
    """What a claim is about, in figures.

    Attributes:
        title: What the values are.
        values: By protocol ("" where none plays a part), then by graph or method; "" names a single value.
        form: Format of a value.
        printed: The same values by graph in the paper's own table.
        all_graphs_count: False for accuracy, where only the paper's own graphs decide and others are shown.
        notes: Sentences that follow the values.
        missing: The evidence where there are no values.
        undecided: The verdict where the values are too uncertain for yes or no.
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
        """Names and values, as in `a +0.50, b -1.00`."""
        return ", ".join(f"{name} {value:{self.form}}".strip() for name, value in values.items())

    def sentence(self, parts: list[str]) -> str:
        """The title and what follows it."""
        return f"{self.title}{': ' if '' in self.values else ', '}{'; '.join(parts)}"

    def by_kind(self, protocol: str) -> dict[str, dict[str, Any]]:
        """Values of one protocol: those that count under "", and the others by the reason why they do not."""
        kinds: dict[str, dict[str, Any]] = {"": {}, "stand-ins": {}, "not in the paper": {}}
        for name, value in self.values[protocol].items():
            counts = self.all_graphs_count or name in SIZES
            kinds["" if counts else "stand-ins" if name in STAND_INS else "not in the paper"][name] = value
        return kinds


Measure: TypeAlias = Callable[..., Measurement]  # of the lines of a study, whether it was quick, and settings
Check: TypeAlias = Callable[[list[Row], bool], Finding]
RowFilter: TypeAlias = Callable[[Row], bool]


@dataclass(frozen=True)
class Claim:
    """A row of the table of claims.

    Attributes:
        text: The sentence.
        where: Its place in the paper.
        study: Whose lines are needed; "" where the paper's own tables are enough.
        rule: When it holds, in words.
        check: The rule.
    """

    text: str
    where: str
    study: str
    rule: str
    check: Check

    def judge(self, evidence: Evidence) -> Finding:
        """The finding from the stored lines."""
        return self.check(evidence.of(self.study), evidence.quick)


# --- rules for all graphs -------------------------------------------------------------------------------


def on_most(answers: list[bool]) -> bool:
    """Whether more than half are true."""
    return 2 * sum(answers) > len(answers)


def on_almost_all(answers: list[bool]) -> bool:
    """Whether most are true, and all but one."""
    return on_most(answers) and sum(answers) >= len(answers) - 1


# --- checks ---------------------------------------------------------------------------------------------


def count_true(
    measure: Measure,
    is_true: Callable[[Any], bool],
    enough: Callable[[list[bool]], bool] = on_most,
    *,
    only: RowFilter | None = None,
    **settings: Any,
) -> Check:
    """A check that tests every value and holds where enough of them pass.

    Args:
        measure: Gives the values.
        is_true: The test of one value.
        enough: Whether the answers of all values are enough.
        only: Which graphs are looked at, decided by a line of each.
        settings: Of the measure.
    """

    def check(rows: list[Row], quick: bool) -> Finding:
        measured = measure([row for row in rows if "error" in row or only is None or only(row)], quick, **settings)
        parts: list[str] = []
        holds: dict[str, bool] = {}
        for protocol in measured.values:
            for kind, values in measured.by_kind(protocol).items():
                if kind and values:
                    parts.append(f"{protocol} ({kind}, not counted: {measured.show(values)})")
                elif values:
                    answers = [bool(is_true(value)) for value in values.values()]
                    shown = measured.show(values)
                    is_plain = "" in values or measured.undecided
                    parts.append(_label(protocol) + (shown if is_plain else _count(answers, shown)))
                    holds[protocol] = enough(answers)
        if not parts:
            return Finding(measured.missing)
        if holds:
            printed = {name: value for name, value in measured.printed.items() if only is None or only(_row_of(name))}
            if printed:
                parts.append(f"as printed: {_count([is_true(value) for value in printed.values()])}")
            parts += measured.notes
            parts += ["too few or too uncertain values"] if measured.undecided == CANNOT_BE_SAID else []
        return Finding(measured.sentence(parts), holds, measured.undecided)

    return check


def compare_groups(
    measure: Measure,
    group_of: Callable[[Row], str],
    is_true: Callable[[dict[str, float]], bool],
    *,
    needed: set[str],
    **settings: Any,
) -> Check:
    """A check of the mean value of groups of graphs.

    Args:
        measure: Gives the values.
        group_of: The group of a graph, by a line of it.
        is_true: The test of the means by group.
        needed: Groups without which nothing is said.
        settings: Of the measure.
    """

    def means_of(values: dict[str, Any], row_of: Callable[[str], Row]) -> dict[str, float]:
        groups: dict[str, list[float]] = {}
        for name, value in values.items():
            groups.setdefault(group_of(row_of(name)), []).append(float(value))
        return {group: fmean(own) for group, own in groups.items()}

    def check(rows: list[Row], quick: bool) -> Finding:
        measured = measure(rows, quick, **settings)
        row_of = {row["cell"]["dataset"]: row for row in rows if "error" not in row}
        parts: list[str] = []
        holds: dict[str, bool] = {}
        for protocol in measured.values:
            values = measured.by_kind(protocol)[""]
            means = means_of(values, row_of.__getitem__)
            if needed <= set(means):
                parts.append(f"{_label(protocol)}{measured.show(means)} ({measured.show(values)})")
                holds[protocol] = is_true(means)
        if not holds:
            return Finding(measured.missing)
        if measured.printed:
            parts.append(f"as printed: {measured.show(means_of(measured.printed, _row_of))}")
        return Finding(f"mean {measured.sentence(parts)}", holds)

    return check


def every(*checks: Check) -> Check:
    """A check that holds where all of several do; not measured where one is not."""

    def check(rows: list[Row], quick: bool) -> Finding:
        findings = [one(rows, quick) for one in checks]
        unmeasured = [finding for finding in findings if not finding.holds]
        if unmeasured:
            return unmeasured[0]
        holds = {"": all(all(finding.holds.values()) for finding in findings)}
        return Finding("; ".join(finding.evidence for finding in findings), holds)

    return check


def not_measured(reason: str) -> Check:
    """The check of a claim that nothing here can measure."""
    return lambda rows, quick: Finding(reason)


def _row_of(name: str) -> Row:
    """A graph of the paper as a stored line would have it."""
    return {"cell": {"dataset": name}, "num_nodes": SIZES[name].num_nodes, "num_edges": SIZES[name].num_edges}


def _label(protocol: str) -> str:
    return f"{protocol}: " if protocol else ""


def _count(answers: list[bool], words: str = "") -> str:
    return f"true for {sum(answers)} of {len(answers)}" + (f" ({words})" if words else "")
