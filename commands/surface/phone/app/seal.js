// Encryption: the key of this device, decrypting items, and encrypting answers. The age library is the global
// variable `age`.
import * as store from "./store.js";

const text = new TextEncoder();

// base64 encodes bytes in standard base64. It works in chunks to keep the argument list short.
export function base64(bytes) {
  let binary = "";
  for (let at = 0; at < bytes.length; at += 4096) binary += String.fromCharCode(...bytes.subarray(at, at + 4096));
  return btoa(binary);
}

// unbase64 decodes standard and URL-safe base64, padded or not.
export const unbase64 = (written) =>
  Uint8Array.from(atob(written.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));

// Unreadable means that an item is not for this device, was changed in transit, or is not the item that it claims to
// be.
export class Unreadable extends Error {}

// supported reports whether this browser can create the key that pairing requires.
export async function supported() {
  try {
    await crypto.subtle.generateKey({ name: "X25519" }, false, ["deriveBits"]);
    return true;
  } catch {
    return false;
  }
}

// makeKey creates and stores the key of this device, and returns its recipient (age1..). The browser stores the key
// so that no script can read its bytes. WebKit reads such a key back as null. There the key is stored wrapped, which
// protects it from anyone who reads the disk.
export async function makeKey() {
  const { privateKey } = await crypto.subtle.generateKey({ name: "X25519" }, false, ["deriveBits"]);
  const recipient = await age.identityToRecipient(privateKey);
  await store.put("key", { privateKey, recipient });
  return (await store.get("key")).privateKey ? recipient : makeWrappedKey();
}

async function makeWrappedKey() {
  const pair = await crypto.subtle.generateKey({ name: "X25519" }, true, ["deriveBits"]);
  const wrapping = await crypto.subtle.generateKey({ name: "AES-KW", length: 256 }, false, ["wrapKey", "unwrapKey"]);
  const wrapped = await crypto.subtle.wrapKey("pkcs8", pair.privateKey, wrapping, "AES-KW");
  const recipient = await age.identityToRecipient(pair.privateKey);
  await store.put("key", { wrapping, wrapped, recipient });
  return recipient;
}

async function privateKey() {
  const kept = await store.get("key");
  if (!kept) throw new Unreadable("this device has no key");
  return kept.privateKey ?? crypto.subtle.unwrapKey("pkcs8", kept.wrapped, kept.wrapping, "AES-KW", { name: "X25519" }, false, ["deriveBits"]);
}

// open returns the contents of item, {id, kind, encrypted, ciphertext or text}. The ID and the kind in the
// contents must match those of the item. Otherwise one question could be put in the place of another.
export async function open(item) {
  let said = item.text;
  if (item.encrypted) {
    const decrypter = new age.Decrypter();
    decrypter.addIdentity(await privateKey());
    try {
      said = JSON.parse(await decrypter.decrypt(unbase64(item.ciphertext), "text"));
    } catch (error) {
      throw new Unreadable(error.message);
    }
  }
  if (said?.v !== 1) throw new Unreadable("this app does not support the version of the contents");
  if (said.id !== item.id || said.kind !== item.kind) throw new Unreadable("the contents belong to another item");
  if (!wellFormed(said)) throw new Unreadable("the format of the contents is not valid");
  const answerable = typeof said.reply === "string" && typeof said.mac === "string";
  if (item.encrypted && item.kind === "question" && !answerable) throw new Unreadable("the question cannot be answered");
  const priority = ["low", "normal", "high"].includes(said.priority) ? said.priority : "normal";
  return { ...said, priority, createdAt: moment(said.createdAt), expiresAt: moment(said.expiresAt) };
}

const moment = (time) => (typeof time === "string" && !Number.isNaN(Date.parse(time)) ? time : undefined);

// wellFormed reports whether the fields of a question or an alert have the types that the page expects. Anyone who
// can write the daemon's table can put any values there.
function wellFormed({ kind, from, question, message, context, sessionId, projectId, options }) {
  const texts = [from, kind === "question" ? question : message, context ?? "", sessionId ?? "", projectId ?? "", ...(Array.isArray(options) ? options : [])];
  return texts.every((text) => typeof text === "string") && (options ?? null) === (Array.isArray(options) ? options : null);
}

// sealAnswer returns the body of the request that answers a question. answer is {option}, {option, text}, or {text}.
export async function sealAnswer(item, question, answer) {
  if (!item.encrypted) return answer;
  const time = new Date().toISOString();
  const what = Object.entries({ option: answer.option, text: answer.text }).filter(([, value]) => value !== undefined).map((part) => part.join(":")).join("\n");
  const key = await crypto.subtle.importKey("raw", unbase64(question.mac), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  const signed = text.encode(`mailroom answer v1\n${item.id}\n${what}\n${time}`);
  const mac = base64(new Uint8Array(await crypto.subtle.sign("HMAC", key, signed)));
  const unpadded = mac.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
  const encrypter = new age.Encrypter();
  encrypter.addRecipient(question.reply);
  const sealed = await encrypter.encrypt(JSON.stringify({ v: 1, id: item.id, ...answer, time, mac: unpadded }));
  return { ciphertext: base64(sealed) };
}

// fingerprint returns the text that a person compares: the first 80 bits of the SHA-256 of a recipient, in
// Crockford's base32.
export async function fingerprint(recipient) {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", text.encode(recipient)));
  let bits = 0n;
  for (const byte of digest.subarray(0, 10)) bits = (bits << 8n) | BigInt(byte);
  let written = "";
  for (let group = 75n; group >= 0n; group -= 5n) written += "0123456789ABCDEFGHJKMNPQRSTVWXYZ"[Number((bits >> group) & 31n)];
  return written.match(/.{4}/g).join("-");
}
