export const Agents = () => <section class="lede"><h1>Agents</h1></section>;
