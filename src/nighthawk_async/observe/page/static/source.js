// Where the page gets what it shows: from the service, or from the file that it is.

import { Connection } from "./connection.js";
import { RecordedConnection, recorded, recordedNodesWith } from "./recorded.js";
import { authorization } from "./token.js";

// Whether the page is a file: nothing changes any more, and nobody is asked.
export const isFile = recorded !== null;

export const recordedAt = recorded?.greeting.now ?? null;

export function connect(path, onEvent, onState) {
  return isFile ? new RecordedConnection(path, onEvent, onState) : new Connection(path, onEvent, onState);
}

// What shared budgets have left; null where the service shows no store, empty when it does not answer.
export async function readBudgets() {
  if (isFile) return null;
  const response = await fetch("api/budgets", { headers: authorization(), cache: "no-store" });
  if (response.status === 404) return null;
  return response.ok ? (await response.json()).budgets : [];
}

// Records of the memory; throws what is wrong.
export async function findRecords(text, signal) {
  const response = await fetch(`api/memory?${new URLSearchParams({ text })}`, { headers: authorization(), signal, cache: "no-store" });
  return (await answerOf(response)).records;
}

export async function changeRecord(action, body) {
  const headers = { ...authorization(), "Content-Type": "application/json" };
  return answerOf(await fetch(`api/memory/${action}`, { method: "POST", headers, body: JSON.stringify(body) }));
}

async function answerOf(response) {
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw Object.assign(new Error(answer.detail ?? `The service answers ${response.status}.`), { status: response.status });
  return answer;
}

// The ids of the nodes that hold a text; null when the service does not answer.
export async function findNodes(text, stream, signal) {
  if (isFile) return recordedNodesWith(text);
  const query = new URLSearchParams({ text, stream });
  const response = await fetch(`api/search?${query}`, { headers: authorization(), signal, cache: "no-store" });
  return response.ok ? (await response.json()).nodes : null;
}
