// All requests of the page to the daemon: commands, the event stream, the requests of a paired desk, and the session.

// tokenKey is a key in sessionStorage, which the browser deletes with the tab and gives to no other address.
const tokenKey = "mailroom-token";

// Failure is the error response of a command. answer holds the whole response.
export class Failure extends Error {
  constructor(code, message, hint, status, answer = {}) {
    super(message);
    this.code = code;
    this.hint = hint;
    this.status = status;
    this.answer = answer;
  }
}

export const token = () => sessionStorage.getItem(tokenKey);
const keepToken = (text) => sessionStorage.setItem(tokenKey, text);
export const dropToken = () => sessionStorage.removeItem(tokenKey);

// read parses JSON. It keeps a number that has more digits than JavaScript can represent as written (JSON.rawJSON),
// if the browser supports that. This takes ten times as long, so read does it only if the text seems to contain such
// a number outside a string.
const read = (text) => (/[:[,]\s*-?\d[\d.eE+-]{15}/.test(text) && JSON.rawJSON ? JSON.parse(text, exact) : JSON.parse(text));
const exact = (_, value, { source }) => (typeof value === "number" && source.length > 15 && String(value) !== source ? JSON.rawJSON(source) : value);

const patience = 120_000; // milliseconds until a request times out, unless it is `slow`

// ask makes one request and returns its JSON response. It throws a Failure. The code of the Failure is offline if the
// daemon cannot be reached, and late if the response does not arrive in time. The daemon stops its work when the
// connection closes, so requests that are slow by nature, such as a backup, have no time limit.
async function ask(method, path, { body, signal, bare, headers, keepalive, slow } = {}) {
  const ends = [signal, slow ? null : AbortSignal.timeout(patience)].filter(Boolean);
  let response, text;
  try {
    response = await fetch(path, {
      method, keepalive, signal: AbortSignal.any(ends), cache: "no-store", credentials: "omit",
      headers: { ...(bare ? {} : { Authorization: `Bearer ${token()}` }), ...(body === undefined ? {} : { "Content-Type": "application/json" }), ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    text = await response.text();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    if (error.name === "TimeoutError") throw new Failure("late", "The daemon has not answered for two minutes.", "The daemon might have carried out the request completely or in part. To check the database, run `mailroom doctor`. Then try again.", 0);
    throw new Failure("offline", "Cannot reach the daemon.", "Start the daemon with `mailroom serve`, or open this page again with `mailroom console`.", 0);
  }
  let answer = null;
  try {
    answer = read(text);
  } catch {
    // The response is not JSON.
  }
  if (response.ok && answer) return answer;
  throw new Failure(answer?.error ?? "internal", answer?.message ?? `Cannot read the response of the daemon (HTTP status ${response.status}).`, answer?.hint ?? "", response.status, answer ?? {});
}

// run runs a command and returns its result. Example: run("trace", {message_id}).
export const run = (name, params = {}, options = {}) => ask("POST", `/v1/commands/${name}`, { body: params, ...options });

// askAsDevice makes a request as the device that has this token. Example: askAsDevice(token, "GET", "signals").
export const askAsDevice = (device, method, path, options = {}) => ask(method, `/v1/console/desk/${path}`, { ...options, headers: { "Mailroom-Device": device } });

// signIn exchanges a one-time code for a session and stores the session's token.
export async function signIn(code) {
  const session = await ask("POST", "/v1/console/session", { body: { code }, bare: true });
  keepToken(session.token);
}

// logIn starts a session with the text that a person pastes: a token, or the address or the code that
// `mailroom console --print` prints.
export async function logIn(text) {
  const [code] = text.match(/mailroom_once_[\w-]+/) ?? [];
  if (code) await signIn(code);
  else keepToken(text.trim());
}

// whoAmI returns who is logged in: {agent, token_id, admin, expires_at, database, named, project, version, host,
// keeps_address}.
export const whoAmI = () => ask("GET", "/v1/console/session");

// signOut ends the session and deletes its token.
export async function signOut() {
  await ask("DELETE", "/v1/console/session").catch(() => {});
  dropToken();
}

// events yields the events of the stream that follow the ID `after`, as {id, event, data}. If `after` is null, the
// stream starts now. First, and again whenever the daemon reports that the stream is still open, events yields an
// object with only an id, the current position in the stream. events returns when the connection ends. It throws a
// Failure.
export async function* events(after, signal) {
  let response;
  try {
    response = await fetch("/v1/events", {
      signal, cache: "no-store", credentials: "omit",
      headers: { Authorization: `Bearer ${token()}`, ...(after ? { "Last-Event-ID": after } : {}) },
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure("offline", "Cannot reach the daemon.", "", 0);
  }
  if (!response.ok) {
    const answer = await response.json().catch(() => null);
    throw new Failure(answer?.error ?? "internal", answer?.message ?? "", answer?.hint ?? "", response.status);
  }
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    const parts = text.split("\n\n");
    text = parts.pop();
    for (const part of parts) {
      const event = readEvent(part);
      if (event) yield event;
    }
  }
}

// readEvent parses one server-sent event, or a comment that contains the position in the stream. It returns null for
// everything else.
function readEvent(part) {
  const event = {};
  for (const line of part.split("\n")) {
    const [, at] = /^: (?:from|still there) (.*)/.exec(line) ?? [];
    if (at) event.id = at;
    else if (line.startsWith("id: ")) event.id = line.slice(4);
    else if (line.startsWith("event: ")) event.event = line.slice(7);
    else if (line.startsWith("data: ")) event.data = JSON.parse(line.slice(6));
  }
  return event.id ? event : null;
}
