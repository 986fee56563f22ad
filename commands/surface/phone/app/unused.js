// Replacements in the bundles for the parts of the age library that are not used (see package bundletest). Of X25519,
// the library uses only the base point from here. The browser performs the other operations; a browser that cannot
// perform them cannot be paired.
export const [MLKEM768P256, MLKEM768X25519, p256, scrypt] = [];
export const x25519 = { GuBytes: Uint8Array.of(9, ...Array(31).fill(0)) };
