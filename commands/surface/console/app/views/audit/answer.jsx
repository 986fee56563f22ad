// The result of a query: a table that a person can sort, and the same rows as a CSV file.

import { useState } from "preact/hooks";
import { MessageLink } from "../../parts.jsx";
import { count, plural } from "../../words.js";
import { clip } from "../operations/asked.jsx";
import { csv } from "./csv.js";

const page = 200; // rows shown before the person asks for more
const longest = 2000; // characters of a cell that are shown

export function Answer({ name, data, limit, empty }) {
  const { columns = [], rows, truncated } = data;
  const [order, setOrder] = useState(null); // {column, down}
  const [shown, setShown] = useState(page);
  const sorted = order ? rows.toSorted((a, b) => (order.down ? -1 : 1) * compare(a[order.column], b[order.column])) : rows;
  const sort = (column) => setOrder(order?.column === column ? { column, down: !order.down } : { column, down: typeof rows[0]?.[column] === "number" });
  const save = () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([csv(columns, sorted)], { type: "text/csv" }));
    link.download = `mailroom-${name}.csv`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  if (!rows.length) return <p class="muted" role="status">{empty}</p>;
  return (
    <section>
      <div class="bar">
        <h2 role="status">{truncated ? `The first ${plural(rows.length, "row")}` : plural(rows.length, "row")}</h2>
        <button class="btn" type="button" onClick={save}>Download as CSV</button>
      </div>
      {truncated && <p class="warn">There are more rows than these {count(limit)}. Sorting and the download include only these rows. To see the others, raise the maximum, or narrow the query with WHERE.</p>}
      <div class="grid" tabIndex={0} role="region" aria-label="Rows">
        <table>
          <thead>
            <tr>{columns.map((c) => (
              <th key={c} class={typeof rows[0][c] === "number" ? "num" : undefined} aria-sort={order?.column === c ? (order.down ? "descending" : "ascending") : undefined}>
                <button type="button" onClick={() => sort(c)}><bdi>{clip(c, 60)}</bdi>{order?.column === c ? (order.down ? " ↓" : " ↑") : ""}</button>
              </th>
            ))}</tr>
          </thead>
          <tbody>{sorted.slice(0, shown).map((row, i) => <tr key={i}>{columns.map((c) => <Cell key={c} column={c} value={row[c]} />)}</tr>)}</tbody>
        </table>
      </div>
      {shown < rows.length && <p><button class="btn" type="button" onClick={() => setShown(shown + 5 * page)}>Show {count(Math.min(5 * page, rows.length - shown))} more of {count(rows.length)}</button></p>}
    </section>
  );
}

// Cell renders a value as text. A click shows a long value in full.
function Cell({ column, value }) {
  const [open, setOpen] = useState(false);
  if (value === null || value === undefined) return <td class="faint">NULL</td>;
  if (typeof value !== "string") return <td class="num">{String(value)}</td>;
  if (column === "message_id" && value.length < 200) return <td><MessageLink id={value} /></td>;
  return <td class={open ? "long" : undefined} title={open ? undefined : clip(value, 200)} onClick={() => value.length > 40 && setOpen(!open)}><bdi>{clip(value, open ? longest : 200)}</bdi></td>;
}

// compare orders NULL before numbers and numbers before texts, as SQL does.
function compare(a, b) {
  const rank = (v) => (v === null || v === undefined ? 0 : typeof v === "string" ? 2 : 1);
  if (rank(a) !== rank(b)) return rank(a) - rank(b);
  return a < b ? -1 : a > b ? 1 : 0;
}
