// Stamped renders a sentence of the engine, with its times in local notation and its commands as code.

import { Hint, When } from "../parts.jsx";

const stamp = /(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)/;

export const Stamped = ({ text }) => text.split(stamp).map((part, i) => (i % 2 ? <When at={part} /> : <Hint text={part} />));
