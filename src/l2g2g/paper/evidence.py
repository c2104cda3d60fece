"""Evidence: stored lines, a claim about them, and the verdict in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from l2g2g.paper.results import Row

_PLACES = {"paper": "under the paper's protocol", "heldout": "on held-out links"}
CANNOT_BE_SAID = "cannot be said"


@dataclass(frozen=True)
class Evidence:
    """Stored lines by study, each cell's latest."""

    rows: dict[str, list[Row]]
    quick: bool = False

    def of(self, study: str) -> list[Row]:
        """Lines of one study; empty where it was not run."""
        return self.rows.get(study, [])


@dataclass(frozen=True)
class Finding:
    """What the lines say.

    Attributes:
        evidence: In figures.
        holds: By evaluation, "paper" and "heldout", or under "" where no evaluation plays a part; empty without lines.
        word: A verdict that is neither yes nor no.
    """

    evidence: str
    holds: dict[str, bool] = field(default_factory=dict)
    word: str = ""

    @property
    def verdict(self) -> str:
        """In the words of the report.

        Example:
            >>> Finding("", {"heldout": True}).verdict
            "holds on held-out links (not measured under the paper's protocol)"
        """
        if self.word or not self.holds:
            return self.word or "not measured"
        answers = set(self.holds.values())
        if len(answers) == 2:
            return f"holds only {_PLACES['paper' if self.holds['paper'] else 'heldout']}"
        answer = "holds" if answers == {True} else "does not hold"
        missing = [words for name, words in _PLACES.items() if name not in self.holds]
        if "" in self.holds or not missing:
            return answer
        (measured,) = self.holds
        return f"{answer} {_PLACES[measured]} (not measured {missing[0]})"


NOTHING = Finding("no finished cells")


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, where it stands, the rule of its verdict in words, and the rule."""

    text: str
    place: str
    rule: str
    check: Callable[[Evidence], Finding]


Enough = Callable[[list[bool]], bool]


def on_most(answers: list[bool]) -> bool:
    """Whether more than half say yes."""
    return 2 * sum(answers) > len(answers)


def on_almost_all(answers: list[bool]) -> bool:
    """Whether most say yes, and all but one."""
    return on_most(answers) and sum(answers) >= len(answers) - 1


def list_values(values: dict[str, float], form: str = "+.2f") -> str:
    """Names and values.

    Example:
        >>> list_values({"a": 0.5, "b": -1})
        'a +0.50, b -1.00'
    """
    return ", ".join(f"{name} {value:{form}}" for name, value in values.items())


def count_answers(answers: list[bool], words: str) -> str:
    """On how many graphs the answer is yes.

    Example:
        >>> count_answers([True, False], "a +0.50, b -1.00")
        'on 1 of 2 (a +0.50, b -1.00)'
    """
    return f"on {sum(answers)} of {len(answers)} ({words})"
