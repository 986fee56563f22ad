// Which rows of a long list are looked at. Only these are on the page, whose height is that of all.

import { useLayoutEffect, useRef, useState } from "preact/hooks";

const around = 8; // rows above and below what is seen
const step = 6; // the window moves by so many rows
const tallest = 12_000_000; // pixels, of which a browser draws no more than some millions more
const guess = 36; // height of a row before there is one

// useWindow says which of n rows of equal height, in the table body `body`, are to be on the page: {from, to}, first is the first
// that is seen. height is that of one; the rows before `shift` have no height, so that a list can be longer than what a browser draws.
// reveal scrolls to a row that is near, jump to any.
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
  // move changes the shift, and scrolls so that the same rows stay in sight.
  const move = (shift, height) => {
    scrollBy(0, (latest.current.shift - shift) * height);
    return shift;
  };
  const goal = useRef(null); // the row to which jump goes
  useLayoutEffect(() => {
    if (goal.current !== null) reveal(goal.current);
    goal.current = null;
    measure();
  }, [state]);
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
  }, [n]); // not whenever a row changes, and with the next frame: to measure has the browser lay out all that has changed
  const reveal = (place) => {
    const { height, shift } = latest.current, top = body.current.getBoundingClientRect().top + (place - shift) * height;
    const head = 130, foot = innerHeight - height - 80; // what covers rows above and below
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
