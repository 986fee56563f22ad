// Requests to the daemon. Every one that fails throws: Refused with the daemon's reason, Offline when there was no answer.
import * as store from "./store.js";

// Offline says that the daemon could not be reached; the request may still have arrived.
export class Offline extends Error {}

// Refused is an answer of the daemon that is not a success. answer.status is what became of a question (409).
export class Refused extends Error {
  constructor(code, answer) {
    super([answer.message, answer.hint].filter(Boolean).join(". ") || `the daemon responded with HTTP status ${code}`);
    this.code = code;
    this.answer = answer;
  }
}

// call makes a request and returns the answer. Whoever waits for longer than 20 seconds is offline for all that matters.
export async function call(method, path, body) {
  const device = await store.get("device");
  let response;
  let answer;
  try {
    response = await fetch(path, {
      method,
      cache: "no-store",
      credentials: "omit",
      keepalive: body !== undefined, // an answer goes out though the page is closed meanwhile
      redirect: "error",
      signal: AbortSignal.timeout(20000),
      headers: {
        ...(device?.token && { Authorization: `Bearer ${device.token}` }),
        ...(body && { "Content-Type": "application/json" }),
      },
      body: body && JSON.stringify(body),
    });
    answer = JSON.parse((await response.text()) || "{}");
  } catch (error) {
    // A tunnel that is down answers too, with a page of its own.
    throw new Offline(error.message);
  }
  if (!response.ok && response.status > 501) throw new Offline(answer.message);
  if (!response.ok) throw new Refused(response.status, answer);
  return answer;
}
