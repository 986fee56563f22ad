// Adding and changing agents, as far as the network interface allows it.

import { useState } from "preact/hooks";
import { run } from "../api.js";
import { Command, Confirm } from "../parts.jsx";
import { quoted } from "../words.js";

const kinds = { inbox: "its inbox", webhook: "a webhook", here: "a command or a file on the machine" };

const kindOf = (deliver) => (deliver === "inbox" ? "inbox" : deliver.startsWith("webhook:") ? "webhook" : "here");

// ChangeAgent renders the dialog that adds or changes an agent. agent is the agent to change, or undefined to add
// one. onDone gets the name of the agent, "" if nothing was changed, and the secret of its webhook if a secret was
// created.
export function ChangeAgent({ agent, onDone }) {
  const [name, setName] = useState(agent?.name ?? ""), [role, setRole] = useState(agent?.role ?? "");
  const [kind, setKind] = useState(agent ? kindOf(agent.deliver) : "inbox"), [url, setUrl] = useState(agent?.deliver.startsWith("webhook:") ? agent.deliver.slice(8) : "");
  const [silent, setSilent] = useState(agent?.silent_after_seconds ? String(agent.silent_after_seconds / 60) : "");
  let result = null;
  const act = async () => {
    const params = { name, role };
    const deliver = kind === "webhook" ? `webhook:${url}` : kind;
    if (kind !== "here" && deliver !== agent?.deliver) params.deliver = deliver;
    if (silent !== "" || agent?.silent_after_seconds) params.silent_after = Math.round(60 * Number(silent));
    result = await run("agent_add", params);
  };
  const command = `mailroom agent add ${quoted(name || "NAME")} --deliver exec:COMMAND`;
  return (
    <Confirm title={agent ? `Change ${agent.name}` : "Add an agent"} word={agent ? "Change" : "Add"} act={act} onDone={(done) => onDone(done ? result.agent.name : "", result?.agent.webhook_secret)}>
      <div class="form">
        {!agent && <Field label="Name" value={name} set={setName} hint="A letter, followed by letters, digits, _, or -." />}
        <Field label="Role" value={role} set={setRole} hint="Describe in a few words what the agent does." />
        <fieldset>
          <legend>Deliver its messages to</legend>
          {Object.entries(kinds).map(([value, word]) => <label><input type="radio" name="kind" checked={kind === value} onChange={() => setKind(value)} />{word}</label>)}
        </fieldset>
        {kind === "webhook" && <Field label="Address" value={url} set={setUrl} hint="https://… The receiver verifies messages with a secret. Mailroom shows the secret only once." />}
        {kind === "here" && <div><p class="muted">You can set commands and files only on the machine itself. Run this command on that machine:</p><Command text={command} /></div>}
        <Field label="Minutes of silence before the agent counts as lost" value={silent} set={setSilent} hint="For no limit, leave this empty." type="number" />
      </div>
    </Confirm>
  );
}

const Field = ({ label, value, set, hint, type }) => (
  <label class="line">{label}<input class="field-text" aria-label={label} type={type} min="0" step="any" value={value} autocomplete="off" onInput={(e) => set(e.target.value)} /><small class="muted">{hint}</small></label>
);
