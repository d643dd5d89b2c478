/* A field above the first table of a page with many rows: it hides the rows that lack one of its words, and
   the sections without a row. */
document.addEventListener("DOMContentLoaded", () => {
  const tables = [...document.querySelectorAll("article table")];
  const rows = tables.flatMap((table) => [...table.querySelectorAll("tbody tr")]);
  if (rows.length < 40) return;
  const field = document.createElement("input");
  field.type = "search";
  field.className = "filter";
  field.placeholder = "Show the rows with these words";
  field.setAttribute("aria-label", field.placeholder);
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
    for (const part of document.querySelectorAll("article section section, article .table-wrapper")) {
      const own = [...part.querySelectorAll("tbody tr")];
      part.hidden = own.length > 0 && own.every((row) => row.hidden);
    }
  });
  document.querySelector("article h1").after(field);
});
