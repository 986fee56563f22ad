// Rows as a CSV file for spreadsheets.

// csv formats a table as defined in RFC 4180. It puts an apostrophe before text that a spreadsheet would interpret as
// a formula, also after a line break or a semicolon within the text, because some spreadsheets start a new cell there
// despite the quotes.
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
