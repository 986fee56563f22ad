export const Messages = () => <section class="lede"><h1>Messages</h1></section>;
