// The token of whoever looks: known to this tab only, and to no server log.

import { keptIn } from "./storage.js";

const KEY = `nighthawk-async:token:${location.pathname}`;

const kept = keptIn("sessionStorage", KEY);

const WRONG = "That is not the token of this dashboard.";

// True when there was one.
export function takeTokenFromAddress() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given === null) return false;
  setToken(given.trim());
  history.replaceState(null, "", location.pathname + location.search);
  return Boolean(getToken());
}

// What is wrong with a token, and whether it is the token itself; null when the service takes it.
export async function findFault(token) {
  const bad = { text: WRONG, isWrong: true };
  if (!/^[!-~]+$/.test(token)) return bad; // no header could have it
  let response;
  try {
    response = await fetch("api/actor", { headers: { Authorization: `Bearer ${token}` }, cache: "no-store" });
  } catch {
    return { text: "The service cannot be reached, so the token could not be checked.", isWrong: false };
  }
  if (response.ok) return null;
  if (response.status === 401) return bad;
  const problem = await response.json().catch(() => ({}));
  return { text: problem.detail ?? `The service answers ${response.status}.`, isWrong: false };
}

export function getToken() {
  return kept.value;
}

export function setToken(token) {
  kept.value = token;
}

export function authorization() {
  const token = getToken();
  return token ? { Authorization: `Bearer ${token}` } : {};
}
