const shown = new WeakMap(); // what an element was built from: {key, signature}

// fill has an element show entries {key, signature, build}. A child whose signature is the same stays where it is, so
// that what somebody types, and where the focus is, outlives a refresh. What
// is built anew has the focus if it had it before.
export function fill(parent, entries) {
  const keys = new Set(entries.map((entry) => entry.key));
  const old = new Map();
  for (const child of [...parent.children]) {
    const { key } = shown.get(child) ?? {};
    if (keys.has(key)) old.set(key, child);
    else child.remove();
  }
  let next = parent.firstElementChild;
  const focused = document.activeElement;
  for (const { key, signature, build } of entries) {
    let child = old.get(key);
    const mine = child && child === focused;
    if (!child || shown.get(child).signature !== signature) {
      const fresh = build();
      shown.set(fresh, { key, signature });
      if (child === next) next = child?.nextElementSibling ?? null;
      child?.remove();
      child = fresh;
    }
    if (child === next) next = next.nextElementSibling;
    else parent.insertBefore(child, next);
    if (mine && document.activeElement !== child) child.focus();
  }
}
