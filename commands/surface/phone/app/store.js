// The data that this device keeps in IndexedDB, shared by the page and the service worker. There are two stores:
// `kept` has single values by name (device, key, removed, ...), and `signals` has questions and alerts by ID.
// Questions and alerts are stored encrypted, as they arrived. The answers given on this device are stored in clear
// text.

let opened;

function database() {
  opened ??= new Promise((resolve, reject) => {
    const request = indexedDB.open("mailroom", 1);
    request.onupgradeneeded = () => {
      request.result.createObjectStore("kept");
      request.result.createObjectStore("signals", { keyPath: "id" });
    };
    request.onsuccess = () => {
      // The page or the service worker may delete the database. An open connection would block that forever.
      request.result.onversionchange = () => request.result.close();
      request.result.onclose = () => (opened = undefined);
      resolve(request.result);
    };
    request.onerror = () => {
      opened = undefined;
      reject(request.error);
    };
  });
  return opened;
}

// transact runs work on stores in one transaction. It returns the result of the request after the transaction is
// complete.
async function transact(names, mode, work) {
  const db = await database();
  return new Promise((resolve, reject) => {
    const transaction = db.transaction(names, mode);
    let result;
    work((name) => transaction.objectStore(name), (value) => (result = value));
    transaction.oncomplete = () => resolve(result);
    transaction.onerror = transaction.onabort = () => reject(transaction.error);
  });
}

const read = (name, ask) =>
  transact([name], "readonly", (store, found) => {
    const request = ask(store(name));
    request.onsuccess = () => found(request.result);
  });

// alter replaces a value with the result of edit: undefined changes nothing, and null removes the value. It runs in
// one transaction, because the page and the service worker may change the value at the same time. It returns the
// stored value. alter does nothing if no device is paired, or if owner is given and is not the ID of the paired
// device, so that data that arrives after unpairing does not come back.
const alter = (name, key, edit, owner) =>
  transact(["kept", "signals"], "readwrite", (store, found) => {
    const device = store("kept").get("device");
    device.onsuccess = () => {
      if (!device.result || (owner !== undefined && device.result.id !== owner)) return;
      const objects = store(name);
      const request = objects.get(key);
      request.onsuccess = () => {
        const next = edit(request.result);
        if (next === null) objects.delete(key);
        else if (next !== undefined) objects.put(...(name === "kept" ? [next, key] : [next]));
        found(next === undefined ? request.result : next);
      };
    };
  });

export const get = (name) => read("kept", (objects) => objects.get(name));
export const signal = (id) => read("signals", (objects) => objects.get(id));
export const signals = () => read("signals", (objects) => objects.getAll());

// put stores a value even if no device is paired, as pairing requires. All other code uses keep and change.
export const put = (name, value) => transact(["kept"], "readwrite", (store) => store("kept").put(value, name));
export const keep = (name, edit, owner) => alter("kept", name, edit, owner);
export const change = (id, edit, owner) => alter("signals", id, edit, owner);

// forget removes everything stored on this device, including its key.
export const forget = () =>
  transact(["kept", "signals"], "readwrite", (store) => {
    store("kept").clear();
    store("signals").clear();
  });
