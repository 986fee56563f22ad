// The notification that told the sender of a message that the message failed.

import { useCommand } from "../data.js";
import { to } from "../route.js";

// useReport returns the error_report that told the sender of a message that the message failed or expired, or
// undefined if there is none. It looks for an error_report from the time of the failure, because both are written at
// the same time.
export function useReport({ message: m, events }) {
  const at = events.findLast((e) => e.event === "failed" || e.event === "expired")?.at;
  const { data } = useCommand(at ? "messages_list" : null, {
    recipient: m.sender, message_type: "error_report", text: m.message_id, since: at, until: at && new Date(Date.parse(at) + 1000).toISOString(), archived: true, limit: 1,
  }, { matters: () => false });
  return data?.messages[0];
}

// told returns the step of the story for a report.
export function told(report) {
  if (!report) return [];
  const at = Date.parse(report.created_at);
  return [{ kind: "act", shape: "sent", label: `${report.recipient} was notified`, href: to(["messages", report.message_id]), from: at, to: at, note: "with an error_report" }];
}
