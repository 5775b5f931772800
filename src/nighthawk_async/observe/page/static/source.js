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

// The ids of the nodes that hold a text; null when the service does not answer.
export async function findNodes(text, stream, signal) {
  if (isFile) return recordedNodesWith(text);
  const query = new URLSearchParams({ text, stream });
  const response = await fetch(`api/search?${query}`, { headers: authorization(), signal, cache: "no-store" });
  return response.ok ? (await response.json()).nodes : null;
}
