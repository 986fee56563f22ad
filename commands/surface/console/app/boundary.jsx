// The replacement for a view that cannot be shown.

import { useEffect, useErrorBoundary, useRef } from "preact/hooks";
import { route, to } from "./route.js";

// Boundary renders its children. If one of them throws, Boundary shows the error in their place until the person goes
// to another address. The rail stays.
export function Boundary({ children }) {
  const [error, again] = useErrorBoundary(), at = useRef(route.value), { path } = route.value;
  useEffect(() => {
    if (at.current !== route.value && error) again();
    at.current = route.value;
  });
  if (!error) return children;
  return (
    <section class="lede" role="alert">
      <h1>Cannot show this view</h1>
      <p>The page has a bug: {String(error.message ?? error).slice(0, 300)}</p>
      {path[0] === "messages" && path[1] && <p><a href={to(path, { as: "text" })}>Show the message with its payload as text</a></p>}
      <p><button class="btn" type="button" onClick={again}>Try again</button></p>
    </section>
  );
}
