// What the daemon is asked: commands, the stream of events, what a paired desk asks, and the session. All that the page asks goes through here.

const tokenKey = "mailroom-token"; // in sessionStorage, which ends with the tab, and which no other address is sent

// Failure is an error that a command answers with. answer is all that it says.
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

// read reads JSON. A number with more digits than JavaScript keeps stays as it was written (JSON.rawJSON), where the browser knows how.
// That takes ten times as long, so that it is done only where such a number seems to stand outside of a string.
const read = (text) => (/[:[,]\s*-?\d[\d.eE+-]{15}/.test(text) && JSON.rawJSON ? JSON.parse(text, exact) : JSON.parse(text));
const exact = (_, value, { source }) => (typeof value === "number" && source.length > 15 && String(value) !== source ? JSON.rawJSON(source) : value);

const patience = 120_000; // milliseconds that an answer may take, unless it is `slow`

// ask makes one request and returns the JSON that answers it. Errors: Failure; its code is offline where nobody answers, and late where the
// answer does not come in time. To hang up has the daemon stop where it is, so that what is rightly slow, such as a backup, has no limit.
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
    // no JSON
  }
  if (response.ok && answer) return answer;
  throw new Failure(answer?.error ?? "internal", answer?.message ?? `Cannot read the response of the daemon (HTTP status ${response.status}).`, answer?.hint ?? "", response.status, answer ?? {});
}

// run runs a command, such as run("trace", {message_id}), and returns its result.
export const run = (name, params = {}, options = {}) => ask("POST", `/v1/commands/${name}`, { body: params, ...options });

// askAsDevice makes a request of the device that has a token: askAsDevice(token, "GET", "signals").
export const askAsDevice = (device, method, path, options = {}) => ask(method, `/v1/console/desk/${path}`, { ...options, headers: { "Mailroom-Device": device } });

// signIn exchanges a one-time code for a session, and keeps its token.
export async function signIn(code) {
  const session = await ask("POST", "/v1/console/session", { body: { code }, bare: true });
  keepToken(session.token);
}

// logIn begins a session with what somebody pastes: a token, or the address or the code that `mailroom console --print` prints.
export async function logIn(text) {
  const [code] = text.match(/mailroom_once_[\w-]+/) ?? [];
  if (code) await signIn(code);
  else keepToken(text.trim());
}

// whoAmI says as whom one is logged in: {agent, token_id, admin, expires_at, database, project, version, host, keeps_address}.
export const whoAmI = () => ask("GET", "/v1/console/session");

// signOut ends the session.
export async function signOut() {
  await ask("DELETE", "/v1/console/session").catch(() => {});
  dropToken();
}

// events yields what the stream of events says, from behind the id `after` on: {id, event, data}. An id of null begins now; the first
// thing that it yields then has nothing but the id at which it begins, and so has what says from time to time that the stream is still there.
// It ends when the connection does. Errors: Failure.
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

// readEvent reads one server-sent event, or a comment that says where the stream is.
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
