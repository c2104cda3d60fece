// Click a heading: numbers by their value (the first number of the text), words by their letters; again: the other way.
"use strict";
const firstNumber = (text) => {
  const found = text.replace(/,/g, "").match(/[-+]?\d+(\.\d+)?(e[-+]?\d+)?/);
  return found ? Number(found[0]) : NaN;
};
for (const table of document.querySelectorAll(".wide table")) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    const words = head.classList.contains("label");
    const value = (row) => words ? row.cells[column].textContent : firstNumber(row.cells[column].textContent);
    const rows = [...body.rows].sort((first, second) => {
      const a = value(first), b = value(second);
      if (words) return sign * a.localeCompare(b);
      return Number.isNaN(a) || Number.isNaN(b) ? Number.isNaN(a) - Number.isNaN(b) : sign * (a - b);
    });
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
    body.append(...rows);
  }));
}
document.documentElement.dataset.ready = "yes";
