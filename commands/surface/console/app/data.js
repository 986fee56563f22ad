// What a view shows, asked for again whenever it may have changed.

import { useEffect, useRef, useState } from "preact/hooks";
import { run } from "./api.js";
import { onEvents, shown } from "./live.js";

const settle = 500; // milliseconds between two times that a view asks because of events, so that a flood of them asks twice a second

const nothing = { data: null, failure: null, loading: true };

// useCommand asks a command, as useAnswer does, and anew when its parameters change. A name of null asks nothing.
export const useCommand = (name, params = {}, options) =>
  useAnswer(name === null ? null : JSON.stringify([name, params]), (signal) => run(name, params, { signal }), options);

// useAnswer asks `question(signal)`, and again after each event that `matters`, after `every` milliseconds if that is set, and when its key
// changes. It returns {data, failure, loading, reload}. Old data stay until new ones are there. A key of null asks nothing, and has no data.
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
