// Settings: their meaning, and how to change and restore them.

import { useEffect, useState } from "preact/hooks";
import { Failure, run } from "../../api.js";
import { useCommand } from "../../data.js";
import { Command, Confirm, Hint, Icon, Loaded, Problem } from "../../parts.jsx";
import { quoted } from "../../words.js";
import { Said } from "./asked.jsx";

const undoFor = 60_000; // milliseconds for which the previous value is offered

export function Settings() {
  const settings = useCommand("setting_list", {}, { matters: () => false, every: 60_000 });
  const [changing, setChanging] = useState(null); // the setting to change
  const [changed, setChanged] = useState(null); // {key, before, after}
  useEffect(() => {
    if (!changed) return;
    const timer = setTimeout(() => setChanged(null), undoFor);
    return () => clearTimeout(timer);
  }, [changed]);
  return (
    <>
      <section class="lede"><h1>Settings</h1><p>The database stores the settings. Every process uses a new value from its next transaction on.</p></section>
      {changed && <Undo change={changed} onDone={() => { setChanged(null); settings.reload(); }} />}
      <Loaded of={settings}>
        {({ settings: all }) => {
          const here = all.filter((s) => s.local);
          return (
            <>
              <ul class="rows">{all.filter((s) => !s.local).map((s) => <Setting key={s.key} setting={s} change={() => setChanging(s)} />)}</ul>
              {here.length > 0 && (
                <section>
                  <div class="bar"><h2><Icon name="lock" /> Only on the machine</h2></div>
                  <p class="muted">These settings define where the daemon connects to and where the keys of questions are. You can change them only in a terminal on the database’s machine.</p>
                  <ul class="rows">{here.map((s) => <Setting key={s.key} setting={s} />)}</ul>
                </section>
              )}
            </>
          );
        }}
      </Loaded>
      {changing && (
        <Change setting={changing} onDone={(after) => {
          setChanging(null);
          if (!after) return;
          setChanged(after);
          settings.reload();
        }} />
      )}
    </>
  );
}

function Setting({ setting: s, change }) {
  const isDefault = s.value === s.default;
  return (
    <li class="row">
      <div class="what">
        <b class="mono">{s.key}</b>
        <span><Hint text={s.about} />.</span>
        {s.ignored && <span class="warn">The stored value <code>{s.ignored}</code> is not valid, so Mailroom uses the default.</span>}
        {s.local && <Command text={`mailroom setting set ${s.key} VALUE`} />}
      </div>
      <div class="value"><code>{s.value}</code><small>{isDefault ? "the default" : <>default <code>{s.default}</code></>}</small></div>
      {change ? <button class="btn" type="button" onClick={change} aria-label={`Change ${s.key}`}>Change…</button> : <span />}
    </li>
  );
}

function Change({ setting: s, onDone }) {
  const [value, setValue] = useState(s.value);
  let changed = null;
  const act = async () => {
    const before = await run("setting_get", { key: s.key });
    changed = { key: s.key, before, after: await run("setting_set", value.trim() === "" ? { key: s.key, default: true } : { key: s.key, value: value.trim() }) };
  };
  return (
    <Confirm title={`Change ${s.key}`} word="Change it" act={act} onDone={(done) => onDone(done && changed)}>
      <p><Hint text={s.about} />. Every process uses the new value from its next transaction on.</p>
      <label class="field"><span>New value</span><input class="field-text mono" value={value} autocomplete="off" spellcheck={false} onInput={(e) => setValue(e.target.value)} /></label>
      <p class="muted"><Hint text={s.bounds} />. To use the default, <code>{s.default}</code>, leave the field empty.</p>
      <Command text={`mailroom setting set ${s.key} ${value.trim() ? quoted(value.trim()) : "--default"}`} />
    </Confirm>
  );
}

// Undo renders the change of a setting, with a button that restores the previous value unless somebody has changed
// the setting since.
function Undo({ change: { key, before, after }, onDone }) {
  const [failure, setFailure] = useState(null);
  const undo = async () => {
    try {
      const { value } = await run("setting_get", { key });
      if (value !== after.value) throw new Failure("conflict", `Somebody has since set ${key} to ${value}, so Mailroom did not restore the previous value.`, "", 0);
      await run("setting_set", before.value === before.default ? { key, default: true } : { key, value: before.value });
      onDone();
    } catch (error) {
      setFailure(error);
    }
  };
  return (
    <Said>
      <span>Changed: <code>{key}</code> is now <code>{after.value}</code>. The previous value was <code>{before.value}</code>.</span>
      <button class="btn" type="button" onClick={undo}>Undo</button>
      <Problem failure={failure} />
    </Said>
  );
}
