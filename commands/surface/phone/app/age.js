/*! age-encryption, Copyright 2023 The age Authors, BSD-3-Clause; with noble and scure, Copyright Paul Miller, MIT */
// What the page and the service worker share of age: one file, so that a phone loads it once. It becomes the global
// name `age` in both.
export { Encrypter, Decrypter, identityToRecipient } from "age-encryption";
