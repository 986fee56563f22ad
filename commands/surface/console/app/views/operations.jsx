export const Operations = () => <section class="lede"><h1>Operations</h1></section>;
