// What stands in the bundles in place of the parts of the age library that are not used (see package bundletest). Of its X25519 the library takes
// only the base point from here: the browser does the rest, or it cannot be paired.
export const [MLKEM768P256, MLKEM768X25519, p256, scrypt] = [];
export const x25519 = { GuBytes: Uint8Array.of(9, ...Array(31).fill(0)) };
