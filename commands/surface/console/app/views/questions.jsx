export const Questions = () => <section class="lede"><h1>Questions</h1></section>;
