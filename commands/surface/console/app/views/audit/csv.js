// Rows as a file for spreadsheets.

// csv is a table as RFC 4180 has it. What a spreadsheet would take for a formula gets an apostrophe before it: also behind a line break or a
// semicolon, at which some spreadsheets begin a new cell, whatever the quotes say.
export function csv(columns, rows) {
  const lines = [columns.map(cell), ...rows.map((row) => columns.map((c) => cell(row[c])))];
  return "\ufeff" + lines.map((cells) => cells.join(",") + "\r\n").join("");
}

function cell(value) {
  if (value === null || value === undefined) return "";
  if (typeof value !== "string") return String(value);
  const safe = value.replace(/(^|[;\r\n])(?=[=+\-@])|^(?=[\t\r])/g, "$1'");
  return /[",;\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
