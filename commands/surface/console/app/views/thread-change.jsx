// The actions of an administrator on a thread: adding a participant, and closing the thread.

import { useState } from "preact/hooks";
import { run } from "../api.js";
import { Confirm } from "../parts.jsx";

export function ThreadActs({ thread, reload }) {
  const [asks, setAsks] = useState("");
  const done = (changed) => {
    setAsks("");
    if (changed) reload();
  };
  return (
    <div class="acts">
      <button class="btn" type="button" onClick={() => setAsks("add")}>Add an agent…</button>
      <button class="btn" type="button" onClick={() => setAsks("close")}>Close…</button>
      {asks === "add" && <Add thread={thread} onDone={done} />}
      {asks === "close" && <Close thread={thread} onDone={done} />}
    </div>
  );
}

function Add({ thread, onDone }) {
  const [name, setName] = useState("");
  return (
    <Confirm title="Add an agent to this thread" word="Add" act={() => run("coral_add_participant", { threadId: thread.thread_id, participantId: name.trim() })} onDone={onDone}>
      <p>A participant can read all posts. It gets each post that mentions it as a message.</p>
      <label class="field"><span>Name of the agent</span><input class="field-text" value={name} autocomplete="off" spellcheck={false} onInput={(e) => setName(e.target.value)} /></label>
    </Confirm>
  );
}

function Close({ thread, onDone }) {
  const [summary, setSummary] = useState("");
  return (
    <Confirm title="Close this thread?" word="Close it" danger act={() => run("coral_close_thread", { threadId: thread.thread_id, ...(summary.trim() && { summary: summary.trim() }) })} onDone={onDone}>
      <p>Nobody can post in a closed thread, and you cannot open it again. The posts stay, and Mailroom notifies the participants.</p>
      <label class="field"><span>Outcome</span><input class="field-text" value={summary} autocomplete="off" maxLength={2000} onInput={(e) => setSummary(e.target.value)} /></label>
    </Confirm>
  );
}
