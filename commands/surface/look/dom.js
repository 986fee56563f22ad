// Making elements. Text only ever becomes text: nothing here parses markup.

// make makes an element. attributes: those whose value is undefined or false are left out, true is written empty;
// onName is a listener. children: elements and strings; what is undefined, false or "" is left out.
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== undefined && child !== false && child !== ""));
  return element;
}
