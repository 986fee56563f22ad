// What agents tell the user, on a paired desk.

import { alertType, alertWord } from "../../../../phone/app/words.js";
import { Agent, Icon, State, When } from "../../parts.jsx";

const shapes = { error: "failed", warning: "overdue", success: "delivered", info: "sent" };

export function Alerts({ desk }) {
  if (!desk.alerts?.length) return null;
  return (
    <section class="alerts"><div class="bar"><h2>Alerts</h2></div>
      <ul>{desk.alerts.map(({ item, what, why }) => (
        <li key={item.id}>
          <p class="meta">{what ? <><State name={shapes[alertType(what)]} word={alertWord(what)} /><span class="who"><Agent name={what.from} /></span></> : <span class="who">An alert</span>}{!item.encrypted && <span class="state"><Icon name="unlock" />Not encrypted</span>}<When at={item.createdAt} seconds={false} /></p>
          <p>{what ? what.message : `This cannot be read on this desk: ${why}.`}</p>
          {what?.context && <p class="ctx">{what.context}</p>}
        </li>
      ))}</ul>
    </section>
  );
}
