export const Audit = () => <section class="lede"><h1>Audit</h1></section>;
