// How the sender of a message was told that it failed.

import { useCommand } from "../data.js";
import { to } from "../route.js";

// useReport is the error_report by which the sender of a message was told that it failed or expired; undefined if there is none. Both were
// written at the same time.
export function useReport({ message: m, events }) {
  const at = events.findLast((e) => e.event === "failed" || e.event === "expired")?.at;
  const { data } = useCommand(at ? "messages_list" : null, {
    recipient: m.sender, message_type: "error_report", text: m.message_id, since: at, until: at && new Date(Date.parse(at) + 1000).toISOString(), archived: true, limit: 1,
  }, { matters: () => false });
  return data?.messages[0];
}

// told is the step of a report.
export function told(report) {
  if (!report) return [];
  const at = Date.parse(report.created_at);
  return [{ kind: "act", shape: "sent", label: `${report.recipient} was notified`, href: to(["messages", report.message_id]), from: at, to: at, note: "with an error_report" }];
}
