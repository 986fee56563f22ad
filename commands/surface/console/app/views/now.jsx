export const Now = () => <section class="lede"><h1>Now</h1></section>;
