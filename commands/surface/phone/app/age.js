/*! age-encryption, Copyright 2023 The age Authors, BSD-3-Clause; with noble and scure, Copyright Paul Miller, MIT */
// The parts of the age library that the page and the service worker share. They are one file, so that a phone loads
// the file once. In both, the file becomes the global variable `age`.
export { Encrypter, Decrypter, identityToRecipient } from "age-encryption";
