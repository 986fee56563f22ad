// The visible rows of a long list. Only these rows are on the page, but the page has the height of all rows.

import { useLayoutEffect, useRef, useState } from "preact/hooks";

const around = 8; // rows above and below the visible rows
const step = 6; // the window moves in steps of this many rows
const tallest = 12_000_000; // pixels; browsers can draw only a few million more
const guess = 36; // row height before the first row is measured

// useWindow returns which of n rows of equal height in the table body `body` must be on the page: {from, to}. first
// is the first visible row, and height is the height of a row. The rows before `shift` have no height, so that a list
// can be longer than a browser can draw. reveal scrolls to a row nearby, jump to any row.
export function useWindow(body, n) {
  const [state, setState] = useState({ from: 0, to: 36, first: 0, height: guess, shift: 0 });
  const latest = useRef(state);
  latest.current = state;
  const measure = () => {
    if (!body.current) return;
    const sample = body.current.querySelector("tr[aria-rowindex]");
    const height = sample ? sample.getBoundingClientRect().height || guess : latest.current.height;
    const top = body.current.getBoundingClientRect().top;
    let { shift } = latest.current;
    const covered = Math.max(0, -top) / height;
    if (covered * height > tallest) shift = move(shift + Math.floor(covered / 2), height);
    else if (shift > 0 && covered < 2000) shift = move(Math.max(0, shift - Math.floor(tallest / height / 2)), height);
    const first = shift + Math.floor(Math.max(0, -body.current.getBoundingClientRect().top) / height);
    const from = Math.max(shift, Math.floor((first - around) / step) * step);
    const to = Math.ceil((first + innerHeight / height + around) / step) * step;
    const was = latest.current;
    if (was.from !== from || was.to !== to || was.height !== height || was.shift !== shift || Math.abs(was.first - first) > step) setState({ from, to, first, height, shift });
    else was.first = first;
  };
  // move changes the shift and scrolls so that the same rows stay visible.
  const move = (shift, height) => {
    scrollBy(0, (latest.current.shift - shift) * height);
    return shift;
  };
  const goal = useRef(null); // the row to which jump scrolls
  useLayoutEffect(() => {
    if (goal.current !== null) reveal(goal.current);
    goal.current = null;
    measure();
  }, [state]);
  // Measuring forces the browser to lay out all changes. So measure in the next frame, and not after each change.
  useLayoutEffect(() => {
    let frame = null;
    const soon = () => {
      frame ??= requestAnimationFrame(() => {
        frame = null;
        measure();
      });
    };
    soon();
    addEventListener("scroll", soon, { passive: true });
    addEventListener("resize", soon);
    return () => {
      removeEventListener("scroll", soon);
      removeEventListener("resize", soon);
      cancelAnimationFrame(frame);
    };
  }, [n]);
  const reveal = (place) => {
    const { height, shift } = latest.current, top = body.current.getBoundingClientRect().top + (place - shift) * height;
    // Elements cover rows at the top and at the bottom of the window.
    const head = 130, foot = innerHeight - height - 80;
    if (top < head) scrollBy(0, top - head);
    else if (top > foot) scrollBy(0, top - foot);
  };
  const jump = (place) => {
    const shift = Math.max(0, place - Math.floor(tallest / 2 / latest.current.height));
    goal.current = place;
    setState({ ...latest.current, shift, from: Math.max(shift, place - around), to: place + around });
  };
  return { ...state, to: Math.min(state.to, n + around), reveal, jump };
}
