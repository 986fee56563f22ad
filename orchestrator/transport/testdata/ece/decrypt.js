// Reads a JSON array of pushes from standard input, {body, key, auth} in base64url, decrypts each as a browser does, and
// writes the array of their texts, null for those that cannot be read.
'use strict';
const crypto = require('crypto');
const ece = require('http_ece');

const pushes = JSON.parse(require('fs').readFileSync(0, 'utf8'));
console.log(JSON.stringify(pushes.map(({ body, key, auth }) => {
  const browser = crypto.createECDH('prime256v1');
  browser.setPrivateKey(key, 'base64url');
  try {
    return ece.decrypt(Buffer.from(body, 'base64url'), { version: 'aes128gcm', privateKey: browser, authSecret: auth }).toString('utf8');
  } catch (err) {
    return null;
  }
})));
