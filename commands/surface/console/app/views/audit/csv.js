// Rows as a file for spreadsheets.

// csv is a table as RFC 4180 has it. A text that a spreadsheet would take for a formula gets an apostrophe before it.
export function csv(columns, rows) {
  const lines = [columns.map(cell), ...rows.map((row) => columns.map((c) => cell(row[c])))];
  return "\ufeff" + lines.map((cells) => cells.join(",") + "\r\n").join("");
}

function cell(value) {
  if (value === null || value === undefined) return "";
  if (typeof value !== "string") return String(value);
  const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
