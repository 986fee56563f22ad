// What this device keeps, in IndexedDB, shared by the page and the service worker. Two stores: `kept` has single values
// by name (device, key, cleared), `signals` has questions and alerts by id. Questions and alerts are kept as they came,
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

// transact runs work on a store in one transaction, and returns what its request found once that is on the disk.
async function transact(store, mode, work) {
  const db = await database();
  return new Promise((resolve, reject) => {
    const transaction = db.transaction(store, mode);
    let result;
    work(transaction.objectStore(store), (value) => (result = value));
    transaction.oncomplete = () => resolve(result);
    transaction.onerror = transaction.onabort = () => reject(transaction.error);
  });
}

const read = (store, ask) =>
  transact(store, "readonly", (objects, found) => {
    const request = ask(objects);
    request.onsuccess = () => found(request.result);
  });

export const get = (name) => read("kept", (objects) => objects.get(name));
export const put = (name, value) => transact("kept", "readwrite", (objects) => objects.put(value, name));

export const signal = (id) => read("signals", (objects) => objects.get(id));
export const signals = () => read("signals", (objects) => objects.getAll());

// change replaces one signal by what edit makes of it (undefined: nothing is changed; null: it is removed) in one
// transaction, since the page and the service worker may both be at it. It returns what is kept then.
export const change = (id, edit) =>
  transact("signals", "readwrite", (objects, found) => {
    const request = objects.get(id);
    request.onsuccess = () => {
      const next = edit(request.result);
      if (next) objects.put(next);
      if (next === null) objects.delete(id);
      found(next === undefined ? request.result : next);
    };
  });

// forget removes everything that this device knows, its key included.
export async function forget() {
  const db = await database();
  await new Promise((resolve, reject) => {
    const transaction = db.transaction(["kept", "signals"], "readwrite");
    transaction.objectStore("kept").clear();
    transaction.objectStore("signals").clear();
    transaction.oncomplete = resolve;
    transaction.onerror = transaction.onabort = () => reject(transaction.error);
  });
}
