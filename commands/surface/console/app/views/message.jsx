export const Message = () => <section class="lede"><h1>Message</h1></section>;
