// The positions of the agents in the picture. An agent keeps its position as long as the page is open, so that
// nothing moves while a person looks at the picture.

import { forceCollide, forceLink, forceManyBody, forceSimulation, forceX, forceY } from "d3-force";

export const width = 620, height = 392;
const places = new Map(); // by agent name: {x, y}

const half = (name) => Math.min(width / 2, 3.5 * name.length + 8); // half of the width of a name, in pixels

// place returns the positions of agents, as a Map from name to {x, y}. links is a list of [from, to].
export function place(names, links) {
  for (const name of places.keys()) if (!names.includes(name)) places.delete(name);
  if (names.some((name) => !places.has(name))) settle(names, links);
  return places;
}

// settle chooses positions for the agents that have none, around those that have one.
function settle(names, links) {
  const nodes = names.map((name) => {
    const at = places.get(name);
    return at ? { name, fx: at.x, fy: at.y } : { name };
  });
  const room = Math.max(44, 92 - 2.2 * names.length);
  forceSimulation(nodes)
    .force("link", forceLink(links.map(([source, target]) => ({ source, target }))).id((node) => node.name).distance(room * 1.8).strength(0.2))
    .force("charge", forceManyBody().strength(-14 * room))
    .force("collide", forceCollide((node) => Math.max(room / 1.6, half(node.name) * 0.8)).strength(0.9))
    .force("x", forceX(width / 2).strength(0.05)).force("y", forceY(height / 2).strength(0.1))
    .force("edge", () => nodes.forEach(keepIn))
    .stop().tick(300);
  if (places.size === 0) fill(nodes);
  nodes.forEach(keepIn);
  for (const node of nodes) places.set(node.name, { x: Math.round(node.x), y: Math.round(node.y) });
}

// fill stretches a picture that is smaller than its box.
function fill(nodes) {
  for (const [axis, size] of [["x", width - 120], ["y", height - 72]]) {
    const all = nodes.map((node) => node[axis]), low = Math.min(...all), high = Math.max(...all);
    const grow = Math.max(1, Math.min(1.6, size / Math.max(1, high - low)));
    for (const node of nodes) node[axis] = (node[axis] - (low + high) / 2) * grow + (axis === "x" ? width : height) / 2;
  }
}

// keepIn moves an agent so that its whole name is visible.
function keepIn(node) {
  if (node.fx !== undefined) return;
  const side = half(node.name);
  node.x = Math.min(Math.max(node.x, side), width - side);
  node.y = Math.min(Math.max(node.y, 32), height - 32);
}
