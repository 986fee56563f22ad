// What this device keeps, in IndexedDB, shared by the page and the service worker. Two stores: `kept` has single values
// by name (device, key, removed), `signals` has questions and alerts by id. Questions and alerts are kept as they came,
// sealed; the answers given here are kept in clear.

let opened;

function database() {
  opened ??= new Promise((resolve, reject) => {
    const request = indexedDB.open("mailroom", 1);
    request.onupgradeneeded = () => {
      request.result.createObjectStore("kept");
      request.result.createObjectStore("signals", { keyPath: "id" });
    };
    request.onsuccess = () => {
      // The other side may want to remove everything; an open connection would make it wait for ever.
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

// transact runs work on stores in one transaction, and returns what its request found once that is on the disk.
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

// alter replaces one value by what edit makes of it (undefined: nothing is changed; null: it is removed) in one
// transaction, since the page and the service worker may both be at it. It returns what is kept then. It does nothing
// unless a device is paired, and it is owner where that is given (an id): what was on its way when somebody unpaired
// must not come back.
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

// put keeps a value, whether or not a device is paired: pairing does that. Everything else uses keep and change.
export const put = (name, value) => transact(["kept"], "readwrite", (store) => store("kept").put(value, name));
export const keep = (name, edit, owner) => alter("kept", name, edit, owner);
export const change = (id, edit, owner) => alter("signals", id, edit, owner);

// forget removes everything that this device knows, its key included.
export const forget = () =>
  transact(["kept", "signals"], "readwrite", (store) => {
    store("kept").clear();
    store("signals").clear();
  });
