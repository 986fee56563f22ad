// Requests to the daemon. A failed request throws Refused with the daemon's reason, or Offline if there was no
// response.
import * as store from "./store.js";

// Offline means that the daemon could not be reached. The request may still have arrived.
export class Offline extends Error {}

// Refused is a response of the daemon other than success. If code is 409, answer.status is the outcome of the
// question.
export class Refused extends Error {
  constructor(code, answer) {
    super([answer.message, answer.hint].filter(Boolean).join(". ") || `the daemon responded with HTTP status ${code}`);
    this.code = code;
    this.answer = answer;
  }
}

// call makes a request and returns the response. It treats a request that takes longer than 20 seconds as offline.
export async function call(method, path, body) {
  const device = await store.get("device");
  let response;
  let answer;
  try {
    response = await fetch(path, {
      method,
      cache: "no-store",
      credentials: "omit",
      keepalive: body !== undefined, // the browser sends an answer even if the page is closed in the meantime
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
    // A broken tunnel also responds, with a page of its own.
    throw new Offline(error.message);
  }
  if (!response.ok && response.status > 501) throw new Offline(answer.message);
  if (!response.ok) throw new Refused(response.status, answer);
  return answer;
}
