// Data for views, requested again whenever it may have changed.

import { useEffect, useRef, useState } from "preact/hooks";
import { run } from "./api.js";
import { onEvents, shown } from "./live.js";

// settle is the minimum number of milliseconds between two requests that events cause, so that a flood of events
// causes two requests a second.
const settle = 500;

const nothing = { data: null, failure: null, loading: true };

// useCommand runs a command as useAnswer does, and again when the parameters change. If name is null, useCommand runs
// nothing.
export const useCommand = (name, params = {}, options) =>
  useAnswer(name === null ? null : JSON.stringify([name, params]), (signal) => run(name, params, { signal }), options);

// useAnswer calls `question(signal)`. It calls it again after each event for which `matters` returns true, every
// `every` milliseconds if that is set, and when the key changes. It returns {data, failure, loading, reload}. The old
// data stays until the new data arrives. If the key is null, useAnswer calls nothing and returns no data.
export function useAnswer(key, question, { matters = () => true, every = 0 } = {}) {
  const [state, setState] = useState(nothing);
  const latest = useRef({});
  latest.current.matters = matters;
  const ask = useRef(() => {});
  useEffect(() => {
    if (key === null) {
      setState(nothing);
      return;
    }
    let ended = false, under = null, again = false, timer = null, asked = 0;
    setState((before) => ({ ...before, loading: true }));
    ask.current = async () => {
      if (under) {
        again = !document.hidden;
        return;
      }
      under = new AbortController();
      try {
        await shown();
        asked = performance.now();
        const data = await question(under.signal);
        if (!ended) setState({ data, failure: null, loading: false });
      } catch (failure) {
        if (!ended && failure.name !== "AbortError") setState((before) => ({ data: before.data, failure, loading: false }));
      }
      under = null;
      if (again && !ended) {
        again = false;
        ask.current();
      }
    };
    const soon = () => {
      timer ??= setTimeout(() => {
        timer = null;
        ask.current();
      }, Math.max(0, asked + settle - performance.now()));
    };
    ask.current();
    const stop = onEvents((list, more) => (more || !list.length || list.some(latest.current.matters)) && soon());
    const ticker = every ? setInterval(() => ask.current(), every) : null;
    return () => {
      ended = true;
      stop();
      clearTimeout(timer);
      clearInterval(ticker);
      under?.abort();
    };
  }, [key, every]);
  return { ...(key === null ? nothing : state), reload: () => ask.current() };
}
