// Tables as text for a spreadsheet (RFC 4180). Pure.

/** A cell that a spreadsheet would run as a formula gets a quote in front. */
function cell(value) {
  if (value === null || value === undefined) return "";
  let text = String(value);
  if (typeof value !== "number" && /^[=+\-@\t\r]/.test(text)) text = `'${text}`;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** @param {string[]} columns @param {Array<Array<unknown>>} rows */
export function csv(columns, rows) {
  return [columns, ...rows].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}
