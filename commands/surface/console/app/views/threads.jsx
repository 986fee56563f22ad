export const Threads = () => <section class="lede"><h1>Threads</h1></section>;
